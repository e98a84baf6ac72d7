"""Name the function that a remote call calls: ``module:qualified.name``. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable

# Calls that torch makes by itself, in the shutdown and for proxies, and those of `reference.world.shutdown` and of
# `faults.leaks.report`. A plan may name them; a sweep leaves them out.
INTERNAL = (
    "torch.distributed.rpc.",
    "reference.world.shutdown_barrier:",
    "reference.world.peer_states:",
    "faults.leaks:",
)


def name_of(function: Callable[..., object]) -> str:
    """Return the site of a function; for a callable object, the site of its class's ``__call__``."""
    if not hasattr(function, "__qualname__"):
        return f"{name_of(type(function))}.__call__"
    # A method of a class in C, such as `str.upper`, does not know its module; its class does.
    module = getattr(function, "__module__", None) or getattr(function, "__objclass__", object).__module__
    # A process that multiprocessing started knows the program's own file as `__mp_main__`.
    return f"{'__main__' if module == '__mp_main__' else module}:{function.__qualname__}"
