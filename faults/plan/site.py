"""Name the function that a remote call calls: ``module:qualified.name``. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable

# Calls that torch makes by itself, in the shutdown and for proxies: a plan may name them, a sweep leaves them out.
INTERNAL = "torch.distributed.rpc."


def name_of(function: Callable[..., object]) -> str:
    """The site of a function; of an object that is called, the site of its class's ``__call__``."""
    if not hasattr(function, "__qualname__"):
        return f"{name_of(type(function))}.__call__"
    # A method of a class in C, as `str.upper` is, does not say its module; its class does.
    module = getattr(function, "__module__", None) or getattr(function, "__objclass__", object).__module__
    # What was started by multiprocessing knows the program's own file by another name.
    return f"{'__main__' if module == '__mp_main__' else module}:{function.__qualname__}"
