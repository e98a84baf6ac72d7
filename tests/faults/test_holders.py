"""What keeps an object alive: variables of running functions, of modules and classes, values of RRefs."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from faults.ledger.snapshot import FUNCTION, GLOBAL, UNSEEN, VALUE
from faults.tracing.holders import Holder, holders

GLOBALS: list[Any] = []
NAMED: dict[str, Any] = {}
THIS = "tests.faults.test_holders"


class Thing:
    """An object that the collector does not track, as an RRef."""

    __slots__ = ("__weakref__",)


class Shelf:
    things: tuple[Any, ...] = ()

    class Board:
        things: ClassVar[list[Any]] = []


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    yield
    GLOBALS.clear()
    NAMED.clear()
    Shelf.Board.things.clear()
    Shelf.things = ()


def holder(key: int, *values: tuple[Any, tuple[int, int]]) -> Holder:
    gc.collect()
    return holders([key], {id(value): (value, ident) for value, ident in values}, "ps", ())[key]


def hide(keep: Callable[[Any], None]) -> int:
    """Let something keep a new object, and return the object's identity."""
    thing = Thing()
    keep(thing)
    return id(thing)


@pytest.mark.parametrize(
    ("keep", "by"),
    [
        (lambda thing: GLOBALS.append(thing), f"the global GLOBALS of {THIS}"),
        (lambda thing: NAMED.update(thing={"thing": thing}), f"the global NAMED of {THIS}"),
        (lambda thing: GLOBALS.append(SimpleNamespace(things={(thing,)})), f"the global GLOBALS of {THIS}"),
        (lambda thing: setattr(Shelf, "things", (thing,)), f"the attribute things of the class {THIS}.Shelf"),
        (lambda thing: Shelf.Board.things.append(thing), f"the attribute things of the class {THIS}.Shelf.Board"),
    ],
    ids=["list", "untracked dictionary", "object", "class", "class of a class"],
)
def test_a_global_holds_what_it_leads_to(keep: Callable[[Any], None], by: str) -> None:
    assert holder(hide(keep)) == Holder(GLOBAL, by)


def test_a_running_function_comes_before_a_global() -> None:
    thing = [Thing()]
    GLOBALS.append(thing)
    found = holder(id(thing[0]))
    name = "test_a_running_function_comes_before_a_global"
    assert found == Holder(FUNCTION, f"the variable thing of the running function {name}")


def test_a_function_that_runs_in_another_thread_holds_its_variables() -> None:
    keys, over = SimpleQueue[int](), threading.Event()

    def work() -> None:
        own = Thing()
        keys.put(id(own))
        over.wait(20)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work)
        try:
            assert holder(keys.get()).by.startswith("the variable own of the running function test_a_function_that_run")
        finally:
            over.set()


def test_a_function_keeps_its_own_dictionary_of_its_variables() -> None:
    thing = Thing()
    own = locals()
    assert holder(id(thing)).root == FUNCTION
    assert own["thing"] is thing


def test_what_nothing_leads_to_is_held_by_something_unseen() -> None:
    assert holder(0).root == UNSEEN


def test_the_search_keeps_nothing_alive() -> None:
    thing = Shelf()
    gone = weakref.ref(thing)
    holder(id(thing))
    del thing
    assert gone() is None


def test_values_are_searched_last_and_all_are_named() -> None:
    keys: list[int] = []
    found = holders(keys, _values_of_one_thing(keys), "ps", ())[keys[0]]  # no variable leads to the values
    assert found.root == VALUE
    assert found.of == ((0, 1), (0, 2))
    assert found.by == "the value (SimpleNamespace) of RRef 1 of ps"


def _values_of_one_thing(keys: list[int]) -> dict[int, tuple[Any, tuple[int, int]]]:
    """Make values of two RRefs that hold the same object, whose identity is put into ``keys``."""
    thing = Thing()
    keys.append(id(thing))
    first, second = SimpleNamespace(thing=thing), SimpleNamespace(things=[thing])
    return {id(first): (first, (0, 1)), id(second): (second, (0, 2))}
