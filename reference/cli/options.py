"""Parse the options of both commands by their whole names, and refuse bad input in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from reference import TUTORIALS
from reference.outcome import Outcome, Overdue, Raised, end_of
from reference.system.files import check_room, place_of
from reference.system.text import BadInput as BadInput  # here for both commands
from reference.system.text import is_file_name, shown
from reference.trace.case import Case, listed

# The longest time that an option accepts (seconds).
_LONGEST = 1e6


def report_failure(name: str, failed: Mapping[str, Outcome], logs: Mapping[str, str]) -> None:
    """Print how each role that failed by itself ended, then its traceback, its stacks or the end of its log."""
    print(f"{name} failed:", file=sys.stderr)
    for role, outcome in failed.items():
        print(f"  {role} {outcome}", file=sys.stderr)
    for role, outcome in failed.items():
        detail = {Raised: "traceback", Overdue: "stacks"}.get(type(outcome))
        text = getattr(outcome, detail) if detail else end_of(logs[role])
        if text.strip():
            print(f"--- {role}\n{text.rstrip()}", file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """Accepts each option by its whole name, and once unless it is a list. An error is one line, without the usage."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def parse_args(self, args: Sequence[str], namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """Raises BadInput."""
        given: set[str] = set()
        for word in takewhile(lambda word: word != "--", args):
            action = self._option_string_actions.get(word.partition("=")[0])
            repeats = isinstance(action, argparse._AppendAction)
            if action is not None and action.dest in given and not repeats:
                self.error(f"{'/'.join(action.option_strings)} is given twice, wanted once")
            given |= {action.dest} if action is not None else set()
        return super().parse_args(args)

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            names = [option for action in self._actions for option in action.option_strings or [str(action.metavar)]]
            message = f"{message}; wanted {', '.join(names)}"
        raise BadInput(message)


def add_case_options(parser: argparse.ArgumentParser, defaults: Case, *, saves: bool = False) -> None:
    """Add one option per field of a tutorial's case; an option that is not given is None.

    ``defaults``: the case that runs without options. ``saves``: the command has ``--save``.
    """
    for item in listed(type(defaults)):
        kind = item.metadata["type"]
        default = item.metadata["help"]
        if item.default != "":  # otherwise the help says what an empty text means
            default += f" (default: {getattr(defaults, item.name)})"
        options = "|".join(item.metadata["options"]) if "options" in item.metadata else None
        if item.name == "record" and saves:
            default += "; without --save or --verify: ends"
        option = f"--{item.name.replace('_', '-')}"
        if kind is bool:
            parser.add_argument(option, action=argparse.BooleanOptionalAction, help=default)
        else:
            shape = options or {int: "N", float: "X", str: "TEXT"}[kind]
            parser.add_argument(option, type=kind, metavar=shape, help=default)


def whole_number(text: str) -> int:
    """Parse an option's whole number, which is at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, got {shown(text)}")
    return int(text)


def seconds(text: str) -> float:
    """Parse an option that is a time."""
    with suppress(ValueError):
        if 0 < float(text) <= _LONGEST:  # false for NaN
            return float(text)
    raise argparse.ArgumentTypeError(f"wanted seconds, above 0 and at most {_LONGEST:.0f}, got {shown(text)}")


def known(name: str) -> str:
    if name not in TUTORIALS:
        raise BadInput(f"unknown tutorial {shown(name)}, wanted one of {', '.join(TUTORIALS)}")
    return name


def check_device(case: Case) -> None:
    """Refuse a device that this machine lacks, without initialising it."""
    import torch  # here, so that the commands that need none start without it

    if getattr(case, "device", "cpu") == "cuda" and not torch.cuda.is_available():
        raise BadInput("device 'cuda' is not available on this machine, wanted 'cpu'")


def check_writable(path: str) -> None:
    """Refuse, before anything runs, a file that could not be written."""
    try:
        if not is_file_name(path) or not is_file_name(str(Path(path).resolve())):
            raise BadInput(f"cannot write {shown(path)}: wanted a name in UTF-8")
        target = Path(path).resolve()
        if target.is_dir():
            raise BadInput(f"cannot write {path}: it is a directory, wanted a file")
        if target.exists() and not target.is_file():
            raise BadInput(f"cannot write {path}: it is not a plain file, wanted one")
        place_of(path)
        check_room(target.parent)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        raise BadInput(f"cannot write {path}: a loop of links") from error
