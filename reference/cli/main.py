"""The command line: ``list``, ``run``, ``verify``, ``compare``, ``conform``.

Exit status 0: success; 1: a run failed or differs from its twin; 2: bad input, or an output that cannot be written;
3: `unknown`; 130: interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType

from reference import TUTORIALS
from reference.cli.options import BadInput, Parser
from reference.outcome import WorldError
from reference.system import interrupts
from reference.system.files import occupy_streams
from reference.system.text import escape_output, one_line, shown
from reference.trace.case import CaseError

# Each command's module and function. `list` and most of `conform` need no torch.
COMMANDS = {
    "list": ("reference.cli.main", "show_list"),
    "run": ("reference.cli.run_command", "run"),
    "verify": ("reference.cli.verify_command", "run_verify"),
    "compare": ("reference.cli.compare_command", "run_compare"),
    "conform": ("reference.cli.conform_command", "conform"),
}

_USAGE = """\
usage: python -m reference list | run NAME [options] | verify [NAME ...] | compare A B | conform ...

  list    list the tutorials
  run     train a tutorial on real RPC processes; `run NAME --help` gives every option, default and unit
  verify  run tutorials and compare every tensor with the single-process twin
  compare explain the first difference of two traces that `run --save` has written, or show that of two answers
  conform write a suite of cases for other implementations, run one on it and judge its results

Exit status 0: success; 1: a run failed or differs from its twin; 2: bad input, and no process was started,
or an output that cannot be written; 3: unknown; 130: interrupted."""


# What may be missing, and what brings it.
_TUTORIALS = ": install this project with its extra `tutorials`"
_MISSING: dict[str | None, str] = {
    "torch": "",
    **dict.fromkeys(("torchvision", "gymnasium", "safetensors", "matplotlib"), _TUTORIALS),
}


def modules_of(arguments: Sequence[str]) -> list[str]:
    """The modules of a command line: the main one, and that of its command if there is one of that name."""
    module, _ = COMMANDS[arguments[0]] if arguments and arguments[0] in COMMANDS else COMMANDS["list"]
    return ["reference.cli.main", module]


def status_of(module: str, *others: str) -> int:
    """Run ``main`` of ``module`` and return the command's exit status: what ``main`` returns; 130 if interrupted; 2 if
    its output cannot be written, because the disk is full or nobody reads the pipe any more, or if it needs torch,
    or what the extra ``tutorials`` brings, and that is not there.

    ``others``: modules that ``main`` will import; here a signal in the middle of it still ends the command at once.
    """
    _open_streams()
    status = 0
    try:
        try:
            main = _imported(module, *others).main
            # A time limit or a closed terminal sends a signal, too. No script may be left running after it.
            interrupts.listen()
            status = main(sys.argv[1:])
            sys.stdout.flush()
        finally:
            interrupts.over()
    except KeyboardInterrupt:
        _say("interrupted")
        status = interrupts.STATUS
    except ModuleNotFoundError as error:
        if error.name not in _MISSING:
            raise
        _say(f"error: {error.name} is not installed, which this command needs{_MISSING[error.name]}")
        status = 2
    except (OSError, SystemExit) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # rich leaves when nobody reads the pipe
        if not isinstance(cause, OSError):
            raise
        if status != 2:  # `main` has not told it
            _say(f"error: {cause}")
        status = 2
    if status == 2 and interrupts.came():  # then what failed is its report, which nobody reads any more
        _say("interrupted")
        status = interrupts.STATUS
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # otherwise Python's own end fails, too
    # Python remembers an interrupt that passed through an `exec` of text, such as the import of a dataclass, until the
    # next `exec`. Without this line a command started by `-m` would end by SIGINT instead of with this status.
    exec("")
    return status


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads it any more
        print(text, file=sys.stderr)


def _imported(module: str, *others: str) -> ModuleType:
    """Import modules without garbage collections, exclude them from all later ones, and return the first.

    Collections would find nothing in them, and take 0.5 of the 1.6 s of a command that only imports torch.
    """
    gc.disable()
    try:
        for name in others:
            import_module(name)
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _open_streams() -> None:
    occupy_streams()
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status. Bad input starts no process."""
    escape_output()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    try:
        if arguments[0] not in COMMANDS:
            raise BadInput(f"unknown command {shown(arguments[0])}, wanted one of {', '.join(COMMANDS)}")
        module, name = COMMANDS[arguments[0]]
        function: Callable[[Sequence[str]], int] = getattr(import_module(module), name)
        return function(arguments[1:])
    except (BadInput, CaseError, WorldError, OSError) as error:
        print(one_line(f"error: {' '.join(str(error).split())}"), file=sys.stderr)
        return 2


def show_list(arguments: Sequence[str]) -> int:
    Parser(prog="python -m reference list", description="List the tutorials.").parse_args(arguments)
    width = max(map(len, TUTORIALS))
    for name, line in TUTORIALS.items():
        print(f"{name:<{width}}  {line}")
    return 0
