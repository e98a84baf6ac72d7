"""Follow the references of Python objects, as far as a search for holders has to."""

from __future__ import annotations

import gc
from types import CodeType, FunctionType, ModuleType
from typing import Any

# A search ends after so many objects; what it has not found by then is held by something unseen.
OBJECTS = 2_000_000

# Objects below which nothing is looked for.
LEAVES = (type, ModuleType, CodeType)
_PLAIN = {type(None), bool, int, float, complex, str, bytes}


def referents(each: Any) -> list[Any]:
    """Return what an object refers to, once for each reference, without plain data; of a function, not the globals of
    its module."""
    if isinstance(each, FunctionType):
        found = [each.__closure__, each.__defaults__, each.__kwdefaults__, each.__dict__]
    else:
        found = gc.get_referents(each)
    return [part for part in found if type(part) not in _PLAIN]
