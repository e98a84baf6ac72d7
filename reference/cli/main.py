"""The command line: ``list``, ``run``, ``verify``, ``compare``, ``conform``.

Exit status 0: success; 1: a run failed or differs from its twin; 2: bad input; 130: interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from reference import TUTORIALS
from reference.cli.commands import COMMANDS
from reference.cli.options import BadInput, Parser
from reference.outcome import WorldError
from reference.system.printable import escape_output, one_line
from reference.trace.case import CaseError


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status. Bad input starts no process."""
    escape_output()
    parser = Parser(prog="python -m reference", description=__doc__, add_help=False)
    parser.add_argument("command", choices=COMMANDS, nargs="?")
    parser.add_argument("-h", "--help", action="store_true")
    try:
        head = [arguments[0]] if arguments and arguments[0] not in ("-h", "--help") else ["--help"]
        chosen = parser.parse_args(head)
        if chosen.command is None:
            return show_help()
        return function_of(chosen.command)(arguments[1:])
    except (BadInput, CaseError, WorldError) as error:
        print(one_line(f"error: {' '.join(str(error).split())}"), file=sys.stderr)
        return 2
    except OSError as error:
        print(one_line(f"error: {error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def function_of(command: str) -> Callable[[Sequence[str]], int]:
    """Import a command's module and return its function, which returns the exit status."""
    module, name = COMMANDS[command]
    function: Callable[[Sequence[str]], int] = getattr(import_module(module), name)
    return function


def show_help() -> int:
    print("usage: python -m reference list | run NAME [options] | verify [NAME ...] | compare A B | conform ...\n")
    print("  list    list the tutorials")
    print("  run     train a tutorial on real RPC processes; `run NAME --help` gives every option, default and unit")
    print("  verify  run tutorials and compare every tensor with the single-process twin")
    print("  compare explain the first difference of two traces that `run --save` has written")
    print("  conform write a suite of cases for other implementations, run one on it and judge its results\n")
    print("Exit status 0: success; 1: a run failed or differs from its twin; 2: bad input, and no process was started;")
    print("130: interrupted.")
    return 0


def show_list(arguments: Sequence[str]) -> int:
    Parser(prog="python -m reference list", description="List the tutorials.").parse_args(arguments)
    width = max(map(len, TUTORIALS))
    for name, line in TUTORIALS.items():
        print(f"{name:<{width}}  {line}")
    return 0
