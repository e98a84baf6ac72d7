"""What is left of an error where it goes: its type, its text, and the mark by which an object is known again.

`faults.ledger.error_links` marks each exception with an attribute. Measured on torch 2.13.0.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch.distributed.rpc as rpc
from torch.distributed.rpc.internal import RemoteException
from torch.futures import Future
from torch.multiprocessing.spawn import spawn

from faults.inject.call import callee_errors
from faults.ledger.error_links import links_of
from reference.world import World, launch

# The name of the type, whether the text names the type that was raised, and whether the mark is still there.
Left = tuple[str, bool, bool]
KINDS = {kind.__name__: kind for kind in (ValueError, TypeError, KeyError, AssertionError)}


def refuse(name: str) -> None:
    """Raise a marked error."""
    error = KINDS[name]("no sale")
    links_of(error)
    raise error


def left_of(act: Callable[[], object], name: str) -> Left:
    """Say what is left of an error of this type when it arrives here."""
    try:
        act()
    except Exception as error:
        return type(error).__name__, name in str(error), "_faults_identity" in vars(error)
    raise AssertionError("no error has arrived")


def arrived(way: str, name: str) -> tuple[Left, str]:
    """Let the other role raise; return what is left here, and the type that `callee_errors` knows."""
    undo = callee_errors.install()
    seen: list[str] = []

    def call() -> None:
        try:
            WAYS[way](name)
        except Exception as error:
            kind, own = callee_errors.raised_there(error), RuntimeError(str(error))
            own.__cause__ = error
            quoted = [OSError(str(error)), RuntimeError(f"lost: {error}"), own]
            told = kind is not None and not any(map(callee_errors.raised_there, quoted))
            seen.append(kind.__name__ if kind and told else "")
            raise

    try:
        return left_of(call, name), seen[0]
    finally:
        undo()


WAYS: dict[str, Callable[[str], object]] = {
    "rpc_sync": lambda name: rpc.rpc_sync("b", refuse, args=(name,)),
    "wait": lambda name: rpc.rpc_async("b", refuse, args=(name,)).wait(),
    "then": lambda name: rpc.rpc_async("b", refuse, args=(name,)).then(lambda done: done.value()).wait(),
    "to_here": lambda name: rpc.remote("b", refuse, args=(name,)).to_here(),
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with launch(["a", "b"], deadline=150) as world:
        yield world


@pytest.mark.leaves("rrefs")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_over_rpc_only_a_text_is_left_but_the_callees_class_can_be_noted(world: World, way: str, name: str) -> None:
    """The mark goes with the object, which stays at the callee."""
    kept = way == "to_here" or (way != "then" and name in ("ValueError", "TypeError"))
    assert world.call("a", arrived, way, name) == ((name if kept else "RuntimeError", True, False), name)


def test_a_class_is_forgotten_when_nobody_notes_any_more() -> None:
    """A later error may have the same text. Of many errors, the last ones are known."""
    undo, error = callee_errors.install(), RuntimeError("no sale")
    assert RemoteException("no sale", KeyError).exception_type is KeyError
    assert callee_errors.raised_there(error) is KeyError
    assert {RemoteException(f"sale {number}", KeyError).exception_type for number in range(1000)} == {KeyError}
    last = RuntimeError("sale 999")
    assert list(map(callee_errors.raised_there, (error, last))) == [None, KeyError]
    undo()
    assert callee_errors.raised_there(last) is None


@pytest.mark.parametrize("name", KINDS)
def test_a_future_keeps_the_object_that_set_exception_puts_and_a_text_of_what_a_callback_raises(name: str) -> None:
    future: Future[object] = Future()
    error = KINDS[name]("no sale")
    links_of(error)
    future.set_exception(error)
    assert left_of(future.wait, name)[::2] == (name, True)
    done: Future[object] = Future()
    done.set_result(None)
    assert left_of(done.then(lambda _: refuse(name)).wait, name) == ("RuntimeError", True, False)


def test_another_thread_gets_the_same_object() -> None:
    with ThreadPoolExecutor() as pool:
        assert left_of(pool.submit(refuse, "KeyError").result, "KeyError")[::2] == ("KeyError", True)


@pytest.mark.long
def test_pickle_keeps_type_and_mark() -> None:
    """A pool of processes pickles the error."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert left_of(pool.submit(refuse, "KeyError").result, "KeyError")[::2] == ("KeyError", True)


def spawned(rank: int, name: str) -> None:
    refuse(name)


@pytest.mark.long
def test_spawn_passes_a_traceback_on_as_a_text() -> None:
    found = left_of(lambda: spawn(spawned, args=("KeyError",)), "KeyError")
    assert found == ("ProcessRaisedException", True, False)


@pytest.mark.long
def test_torchrun_passes_a_status_on(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text("raise KeyError('no sale')\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", str(tmp_path / "my.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    said = done.stderr.partition("ChildFailedError")[2]
    assert "exitcode  : 1" in said
    assert "KeyError" not in said
