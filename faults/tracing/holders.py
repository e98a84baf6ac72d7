"""Find what keeps Python objects alive: variables of running functions, of modules and classes, values of RRefs.

`faults.judge.holdings` decides by the kind of holder whether an RRef is a leak. The search goes down from variables,
because Python's garbage collector does not tell what refers to an RRef: it does not track RRefs, nor a dictionary that
holds nothing else. References are counted, because only their number tells a value that a context variable or `atexit`
uses from one that is lost.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch

from faults.ledger.snapshot import FUNCTION, GLOBAL, UNSEEN, VALUE, Ident
from faults.tracing.user_frames import is_faults, is_library, is_users

# A search ends after so many objects; what it has not found by then is held by something unseen.
OBJECTS = 2_000_000

# Objects below which nothing is looked for. A search leaves tensors out, too: there may be millions of them in a list.
_LEAVES = (type, ModuleType, CodeType)
_LEAVES_OF_A_SEARCH = (*_LEAVES, torch.Tensor)
_PLAIN = {type(None), bool, int, float, complex, str, bytes}


@dataclass(frozen=True)
class Holder:
    """What keeps an object alive, as `faults.ledger.snapshot.Held` says it."""

    root: str
    by: str
    of: tuple[Ident, ...] = ()


NOBODY = Holder(UNSEEN, "something that Python does not see, such as a future or the value of an RRef")


def holders(
    wanted: Collection[int], values: Mapping[int, tuple[Any, Ident]], role: str, files: Collection[str]
) -> dict[int, Holder]:
    """Return the holder of each object in ``wanted``, which has the objects' identities.

    Of several holders it is the strongest: a function that runs, then a global, then something unseen, then values of
    RRefs. ``values``: the values of RRefs that this role owns, by their identities; ``files``: files of code that got
    the objects. The callers refer to none of the objects, and to the values only by ``values``.
    """
    search = _Search(wanted)
    search.go_down(_of_functions())
    search.go_down(_of_modules({os.path.dirname(file) for file in files}))  # noqa: PTH120 (thousands)
    search.go_down_from_unseen(values)
    for value, ident in values.values():
        by = f"the value ({type(value).__name__}) of RRef {ident[1]} of {role}"
        search.go_down([(value, Holder(VALUE, by, (ident,)))])
    return {key: search.found.get(key, NOBODY) for key in wanted}


def _unseen(each: Any) -> Holder:
    what = "something refers that Python does not see, such as a context variable or atexit,"
    return Holder(UNSEEN, f"the object ({type(each).__name__}) to which {what}")


class _Search:
    """A search for objects by their identity, down from one source after the other."""

    def __init__(self, wanted: Collection[int]) -> None:
        self._wanted = set(wanted)
        self._seen = {id(vars(each)) for each in list(sys.modules.values()) if isinstance(each, ModuleType)}
        self.found: dict[int, Holder] = {}

    def go_down_from_unseen(self, values: Mapping[int, tuple[Any, Ident]]) -> None:
        """Note what can be reached from objects to which ``values`` lead, but to which something unseen refers, too."""
        below, known = _below(values, self._seen)
        if self._wanted.isdisjoint(map(id, below)):
            return
        for each, count in zip(below, _references(below), strict=True):
            if count > known[id(each)]:
                self.go_down([(each, NOBODY if id(each) in self._wanted else _unseen(each))])

    def go_down(self, sources: Iterable[tuple[Any, Holder]]) -> None:
        """Note the holder of each wanted object that can be reached. Only values of RRefs may share an object."""
        ahead = deque(sources)
        seen = self._seen
        if ahead and ahead[0][1].root == VALUE:
            seen = self._seen.copy()
        while ahead and len(seen) < OBJECTS:
            each, holder = ahead.popleft()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if id(each) in self._wanted:
                self._note(id(each), holder)
            elif not isinstance(each, _LEAVES_OF_A_SEARCH):
                ahead.extend((part, holder) for part in _referents(each))

    def _note(self, key: int, holder: Holder) -> None:
        known = self.found.get(key)
        if known is None:
            self.found[key] = holder
        elif known.root == VALUE:
            self.found[key] = Holder(VALUE, known.by, known.of + holder.of)


def _referents(each: Any) -> list[Any]:
    """Return what an object refers to, once for each reference, without plain data; of a function, not the globals of
    its module."""
    if isinstance(each, FunctionType):
        found = [each.__closure__, each.__defaults__, each.__kwdefaults__, each.__dict__]
    else:
        found = gc.get_referents(each)
    return [part for part in found if type(part) not in _PLAIN]


def _below(values: Mapping[int, tuple[Any, Ident]], seen: Set[int]) -> tuple[list[Any], dict[int, int]]:
    """Return the objects to which ``values`` lead, without those in ``seen``, and by identity how many of the
    references to each are known. What is left out beyond `OBJECTS` has references that count as unseen."""
    found = [value for key, (value, _) in values.items() if key not in seen and not isinstance(value, _LEAVES)]
    # Two references to each value are known: that of the RRef in C++, and that of the tuple.
    known = defaultdict(int, {id(value): 2 for value in found})
    for each in found:
        if len(seen) + len(known) > OBJECTS:
            break
        for part in _referents(each):
            key = id(part)
            if key not in known and key not in seen and not isinstance(part, _LEAVES):
                found.append(part)
            known[key] += 1
    return found, known


def _references(objects: list[Any]) -> list[int]:
    """Return how many references there are to each object, without those of the list and of this function."""
    objects.append(object())
    counts = [sys.getrefcount(each) for each in objects]
    objects.pop()
    return [count - counts[-1] for count in counts[:-1]]


def _of_functions() -> Iterator[tuple[Any, Holder]]:
    """Yield the variables of the functions that run in any thread, except this project's own."""
    for frame in _running():
        code = frame.f_code
        # The variables of a module are globals. This search itself has variables, too.
        if not code.co_flags & CO_OPTIMIZED or is_faults(code.co_filename):
            continue
        by = f"of the running function {code.co_qualname}"
        variables = frame.f_locals
        for name, value in list(variables.items()):
            yield value, Holder(FUNCTION, f"the variable {name} {by}")
        # Until Python 3.12 a copy, which would keep the values alive: of the frame, of this function, and of the call
        # that counts. If the running function has it, too, by `locals()`, it stays.
        if type(variables) is dict and sys.getrefcount(variables) <= 3:
            variables.clear()


def _running() -> Iterator[FrameType]:
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            yield frame
            frame = frame.f_back


def _of_modules(folders: Collection[str]) -> Iterator[tuple[Any, Holder]]:
    """Yield the variables of the program's modules and the attributes of their classes. A module of an installed
    package counts if it lies in one of ``folders``."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(module, ModuleType) or not isinstance(file, str) or not is_users(file):
            continue
        if is_library(file) and os.path.dirname(file) not in folders:  # noqa: PTH120 (thousands)
            continue
        name = "__main__" if module.__name__ == "__mp_main__" else module.__name__
        for variable, value in list(vars(module).items()):
            yield from _of_global(name, variable, value)


def _of_global(module: str, name: str, value: Any) -> Iterator[tuple[Any, Holder]]:
    if not isinstance(value, type):
        yield value, Holder(GLOBAL, f"the global {name} of {module}")
    elif value.__module__ in (module, "__mp_main__"):
        for attribute, part in list(vars(value).items()):
            if isinstance(part, type) and part.__qualname__.startswith(f"{value.__qualname__}."):
                yield from _of_global(module, attribute, part)
            yield part, Holder(GLOBAL, f"the attribute {attribute} of the class {module}.{value.__qualname__}")
