"""Ask the processes of a world where they are, to say of each one that is missing what it does instead."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed.rpc as rpc

# Files that belong to no program. Packages may be installed below the standard library.
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<frozen ")
_STDLIB = sysconfig.get_path("stdlib")


@dataclass(frozen=True)
class PeerState:
    """What one process answers. ``open_calls``: calls of its program that its last count waits for.

    ``place`` is where its main thread is.

    ``error``: why it does not answer; ``gone``: and never will.
    """

    name: str
    entered: bool = False
    open_calls: int = 0
    place: str = ""
    error: str = ""
    gone: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.error or f'has not called it (its main thread is {self.place})'}"


def of_this_process(entered: bool, open_calls: int) -> PeerState:
    """The state of this process. ``entered``: it has begun its shutdown."""
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return PeerState(rpc.get_worker_info().name, entered, open_calls, place_of(main))


def place_of(frame: FrameType | None) -> str:
    """Name the innermost function outside of libraries: ``in step at train.py:41``. If there is none, the innermost."""
    return place_in_program(frame) or (_place(frame) if frame else "at its end")


def place_in_program(frame: FrameType | None) -> str:
    """Name the innermost function outside of libraries; empty if there is none."""
    while frame is not None and _of_a_library(frame.f_code.co_filename):
        frame = frame.f_back
    return _place(frame) if frame else ""


def _place(frame: FrameType) -> str:
    return f"in {frame.f_code.co_name} at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _of_a_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or (file.startswith(_STDLIB) and "site-packages" not in file)


def call_all(
    names: Iterable[str], function: Callable[..., Any], args: Sequence[object], seconds: float
) -> dict[str, Any]:
    """Call ``function`` on all of these at once: what each returned, or the RuntimeError of its call."""
    calls = {name: _call(name, function, args, seconds) for name in names}
    return {name: _result(call) for name, call in calls.items()}


def _call(name: str, function: Callable[..., Any], args: Sequence[object], seconds: float) -> Any:
    try:
        return rpc.rpc_async(name, function, args=tuple(args), timeout=seconds)
    except RuntimeError as error:  # known to be gone
        return error


def _result(call: Any) -> Any:
    try:
        return call if isinstance(call, RuntimeError) else call.wait()
    except RuntimeError as error:
        return error


def ask(state: Callable[[], PeerState], names: Iterable[str], own: str, seconds: float) -> list[PeerState]:
    """What ``state`` returns in each process but ``own``; of one that does not answer within ``seconds``, why."""
    others = [name for name in names if name != own]
    answers = call_all(others, state, (), seconds)
    return [each if isinstance(each, PeerState) else _silent(name, each, seconds) for name, each in answers.items()]


def _silent(name: str, error: RuntimeError, seconds: float) -> PeerState:
    if is_timeout(error):
        return PeerState(name, error=f"does not answer within {seconds:.1f} s")
    return PeerState(name, error=f"is gone: {first_line(error)}", gone=True)


def is_timeout(error: BaseException) -> bool:
    return str(error).startswith("RPCErr:1:")


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
