"""Replace a function of RPC in every module that has it, under any name, and put it back.

Programs say `from torch.distributed.rpc import init_rpc`, so one place is not enough. Importing this module searches
thousands of modules once; for roles that happens before they are forked. Searching again in each role would take 15 ms,
and copy thousands of pages. Replacing uses what was found then, and searches the modules that were imported since.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch.distributed.rpc as rpc

# Modules that have no function of torch under another name than its own, so one look-up is enough for each.
_WITHOUT_ALIASES = {"torch", "sympy", "numpy", *sys.stdlib_module_names} - {"__main__"}

Place = tuple[dict[str, Any], str]


def patch_all_references(name: str, original: Any, new: Any) -> Callable[[], None]:
    """Replace ``original``, which is `rpc`'s ``name``, by ``new``. Return a function that puts it back."""
    _exchange(name, original, new)
    # Search again when it is put back: a module that was imported meanwhile may have the new one.
    return partial(_exchange, name, new, original)


def _exchange(usual: str, old: Any, new: Any) -> None:
    for names, name in [*_KNOWN[usual], *_places({usual: old}, _since())[usual]]:
        if names.get(name) is old:
            names[name] = new


def _places(wanted: Mapping[str, Any], modules: Iterable[ModuleType]) -> dict[str, list[Place]]:
    """Find each of these values, by its usual name, in ``modules``, which are searched once."""
    found: dict[str, list[Place]] = {usual: [] for usual in wanted}
    usual_of = {id(value): usual for usual, value in wanted.items()}
    for module in modules:
        names = getattr(module, "__dict__", {})
        if str(getattr(module, "__name__", "")).partition(".")[0] in _WITHOUT_ALIASES:
            held = [(usual, usual) for usual, value in wanted.items() if names.get(usual) is value]
        else:
            held = [(name, usual_of[id(each)]) for name, each in list(names.items()) if id(each) in usual_of]
        for name, usual in held:
            found[usual].append((names, name))
    return found


def _since() -> list[ModuleType]:
    """Return the modules that were imported after this one, or were not complete then, such as the program's script."""
    # From the end, because passing the names of all others would touch, and so copy, their pages; and in C, because
    # another thread may import a module whenever Python runs.
    later = [*iter(reversed(sys.modules).__next__, __name__)]
    return [each for each in map(sys.modules.get, (*_UNFINISHED, *later)) if each is not None]


def _is_unfinished(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", True))


_KNOWN = _places({name: getattr(rpc, name) for name in ("init_rpc", "shutdown")}, list(sys.modules.values()))
# Of a program that is started by ``python -m`` the spec is that of a module that is complete.
_UNFINISHED = [name for name, module in sys.modules.copy().items() if name == "__main__" or _is_unfinished(module)]
