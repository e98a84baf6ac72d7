"""The command line: ``list``, ``run``, ``verify``.

Exit status 0: done and right; 1: not; 2: bad input; 130: interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reference import TUTORIALS, load
from reference.cli.picture import SUFFIXES, drawable
from reference.cli.progress_bar import watch
from reference.cli.timing import SWEEPS, CellFailed, Measured, Plan, SweepError, add_options, timed, warm_up
from reference.outcome import Outcome, Overdue, Raised, WorldError
from reference.system.atomic_file import place_of
from reference.system.printable import OneLine, escape_output, is_file_name, one_line, printable, shown
from reference.trace.case import Case, CaseError, listed
from reference.trace.trace import Trace, TraceError
from reference.verify.verify import CASES_LONG, cases, changes, culprits, long_cases, prove, trace_of, verify
from reference.world.launcher import launch
from reference.world.start import check_deadline
from reference.world.torchrun import number_in, run_rank


class BadInput(OneLine):
    """One line for the user; exit status 2."""


class Parser(argparse.ArgumentParser):
    """Takes each option by its whole name and once, and says what is wrong in one line, without the usage."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def parse_args(self, args: Sequence[str], namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """Raises BadInput."""
        given: set[str] = set()
        for word in takewhile(lambda word: word != "--", args):
            action = self._option_string_actions.get(word.partition("=")[0])
            if action is not None and action.dest in given:
                self.error(f"{'/'.join(action.option_strings)} is given twice, wanted once")
            given |= {action.dest} if action is not None else set()
        return super().parse_args(args)

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            names = [option for action in self._actions for option in action.option_strings or [str(action.metavar)]]
            message = f"{message}; wanted {', '.join(names)}"
        raise BadInput(message)


def main(arguments: Sequence[str]) -> int:
    """The exit status. No process is started on bad input."""
    escape_output()
    commands = {"list": show_list, "run": run, "verify": run_verify}
    parser = Parser(prog="python -m reference", description=__doc__, add_help=False)
    parser.add_argument("command", choices=commands, nargs="?")
    parser.add_argument("-h", "--help", action="store_true")
    try:
        head = [arguments[0]] if arguments and arguments[0] not in ("-h", "--help") else ["--help"]
        chosen = parser.parse_args(head)
        if chosen.command is None:
            return show_help()
        return commands[chosen.command](arguments[1:])
    except (BadInput, CaseError, SweepError, WorldError) as error:
        print(one_line(f"error: {' '.join(str(error).split())}"), file=sys.stderr)
        return 2
    except OSError as error:
        print(one_line(f"error: {error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def show_help() -> int:
    print("usage: python -m reference list | run NAME [options] | verify [--long] [NAME ...]\n")
    print("  list    the tutorials")
    print("  run     train one on real RPC processes; `run NAME --help` gives every option, default and unit")
    print("  verify  run them and hold every tensor against the single-process twin\n")
    print(
        "Exit status 0: done and right; 1: it failed or differs; 2: bad input, which starts nothing; 130: interrupted."
    )
    return 0


def show_list(arguments: Sequence[str]) -> int:
    Parser(prog="python -m reference list", description="The tutorials.").parse_args(arguments)
    width = max(map(len, TUTORIALS))
    for name, line in TUTORIALS.items():
        print(f"{name:<{width}}  {line}")
    return 0


def run(arguments: Sequence[str]) -> int:
    """Train one tutorial; under torchrun, play the role of this rank."""
    if not arguments:
        raise BadInput(f"run what? wanted one of {', '.join(TUTORIALS)}")
    if arguments[0] in ("-h", "--help"):
        print("usage: python -m reference run NAME [options]; `run NAME --help` lists a tutorial's options")
        print(f"NAME: {', '.join(TUTORIALS)}")
        return 0
    name = known(arguments[0])
    options = vars(_run_parser(name).parse_args(arguments[1:]))
    save, deadline = options.pop("save"), options.pop("deadline")
    swept = {key: options.pop(key) for key in sweep_options(name)}
    given = {key: value for key, value in options.items() if value is not None}
    under_torchrun = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    if given.get("arithmetic") == "exact":
        scaled = fitted(name, given, world_size()) if under_torchrun else given
        given = {**load(name).Case.EXACT, **scaled}  # what fits, where nothing is given
    plan = _plan(name, given, swept, save, deadline)
    if plan is not None:
        return _run_sweep(name, plan, swept["picture"] or f"{name}.png", deadline)
    if save is None:
        given.setdefault("record", "ends")  # nobody will see the steps in between
    if under_torchrun:
        given = fitted(name, given, world_size())
    case = load(name).Case(**given)
    check_device(case)
    if save is not None:
        check_writable(save)
    prove(case)
    return _run_rank(case, save, deadline) if under_torchrun else _run_here(case, save, deadline)


def _run_parser(name: str) -> Parser:
    parser = Parser(
        prog=f"python -m reference run {name}",
        description=(load(name).__doc__ or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_case_options(parser, name, saves=True)
    parser.add_argument("--save", metavar="FILE", help="write the trace there, as safetensors (default: nowhere)")
    limit = "seconds in all; under torchrun, of the shutdown (default: 3600)"
    parser.add_argument("--deadline", type=float, default=3600.0, metavar="X", help=limit)
    if name in SWEEPS:
        add_options(parser, SWEEPS[name])
    return parser


def add_case_options(parser: argparse.ArgumentParser, name: str, *, saves: bool = False) -> None:
    """One option a field of the tutorial's case; None where it is not given. ``saves``: there is `--save`."""
    for item in listed(load(name).Case):
        kind, default = item.metadata["type"], f"{item.metadata['help']} (default: {item.default})"
        options = "|".join(item.metadata["options"]) if "options" in item.metadata else None
        if item.name == "record" and saves:
            default += "; without --save: ends"
        option = f"--{item.name.replace('_', '-')}"
        if kind is bool:
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=None, help=default)
        else:
            shape = options or {int: "N", float: "X", str: "TEXT"}[kind]
            parser.add_argument(option, type=kind, metavar=shape, help=default)


def sweep_options(name: str) -> list[str]:
    """The options of ``run NAME`` that are for its table, as argparse names them."""
    return [option.replace("-", "_") for option in (*SWEEPS[name].options, "picture")] if name in SWEEPS else []


def _plan(
    name: str, given: Mapping[str, Any], swept: Mapping[str, Any], save: str | None, deadline: float
) -> Plan | None:
    """The table that is asked for, its every case made; None for a plain run."""
    if name not in SWEEPS:
        return None
    plan = SWEEPS[name].plan(load(name).Case, {"record": "ends", **given}, swept)
    picture = swept["picture"]
    if plan is None:
        if picture is not None:
            raise BadInput("--picture is for a table of several runs, and none is asked for")
        return None
    if save is not None:
        raise BadInput("--save is for one run, and a table of several is asked for")
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        raise BadInput("a table of several runs starts worlds of its own: run it without torchrun")
    if not drawable(picture or f"{name}.png"):
        raise BadInput(f"cannot draw {picture}, wanted a name that ends with {' or '.join(SUFFIXES)}")
    check_writable(picture or f"{name}.png")
    check_deadline(deadline)
    for _, _, case in plan.cells():
        check_device(case)
        prove(case)
    return plan


def _run_sweep(name: str, plan: Plan, picture: str, deadline: float) -> int:
    measured, failed = Measured(plan), False
    console = Console(width=None if sys.stdout.isatty() else 140)
    warm_up()
    for number, way, case in plan.cells():
        try:
            with watch(f"{name} {plan.over}={number} {way}".strip()) as progress:
                measured.times[number, way] = timed(case, deadline, progress)
        except CellFailed as error:
            report_failure(name, error.outcomes, error.logs)
            failed = True
            break
    console.print(measured.table(name))
    if failed:
        return 1
    measured.draw(picture, name)
    print(f"picture in {picture}")
    return 0


def known(name: str) -> str:
    if name not in TUTORIALS:
        raise BadInput(f"unknown tutorial {shown(name)}, wanted one of {', '.join(TUTORIALS)}")
    return name


def fitted(name: str, given: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Under torchrun the number of processes is given: set the field that scales, unless the user did."""
    module = load(name)
    for item in listed(module.Case):
        if item.metadata.get("scales") and item.name not in given:
            others = len(module.roles(module.Case())) - getattr(module.Case(), item.name)
            return {**given, item.name: size - others}
    return dict(given)


def world_size() -> int:
    """torchrun's number of processes."""
    size = number_in("WORLD_SIZE")
    if size is None:
        raise BadInput(f"WORLD_SIZE must be a number, got {shown(os.environ['WORLD_SIZE'])}")
    return size


def check_device(case: Case) -> None:
    """Refuse a device that is not there. Asks without touching it."""
    if getattr(case, "device", "cpu") == "cuda" and not torch.cuda.is_available():
        raise BadInput("device 'cuda' is not available on this machine, wanted 'cpu'")


def check_writable(path: str) -> None:
    """Refuse a file that could not be written, before anything runs."""
    try:
        if not is_file_name(path) or not is_file_name(str(Path(path).resolve())):
            raise BadInput(f"cannot write {shown(path)}: wanted a name in UTF-8")
        target = Path(path).resolve()
        if target.is_dir():
            raise BadInput(f"cannot write {path}: it is a directory, wanted a file")
        if target.exists() and not target.is_file():
            raise BadInput(f"cannot write {path}: it is not a plain file")
        place_of(path)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        raise BadInput(f"cannot write {path}: a loop of links") from error


def _run_here(case: Case, save: str | None, deadline: float) -> int:
    roles = load(case.tutorial()).roles(case)
    start = time.monotonic()
    with (
        watch(case.tutorial()) as progress,
        launch(roles, deadline=deadline, on_progress=progress, isolated=True) as world,
    ):
        outcomes = world.wait()
        logs = {name: world.log(name) for name in culprits(outcomes)}
    try:
        trace = trace_of(outcomes)
    except TraceError:
        report_failure(case.tutorial(), culprits(outcomes), logs)
        return 1
    print(f"{case.tutorial()}: {len(roles)} roles, {case.steps} steps in {time.monotonic() - start:.1f} s")
    return _finish(trace, save)


def _finish(trace: Trace, save: str | None) -> int:
    losses = trace.losses()
    if losses:
        print(f"  mean loss {losses[0]:.6g} at the first step, {losses[-1]:.6g} at the last")
    if save is not None:
        try:
            trace.save(save)
        except (OSError, TraceError) as error:
            print(one_line(f"error: trained, but {save} could not be written: {error}"), file=sys.stderr)
            return 1
        print(f"saved {len(trace.tensors)} tensors to {printable(save)}")
    return 0


def report_failure(name: str, failed: Mapping[str, Outcome], logs: Mapping[str, str]) -> None:
    """Every role that failed by itself: how, and what it said last."""
    print(f"{name} failed:", file=sys.stderr)
    for role, outcome in failed.items():
        print(f"  {role} {outcome}", file=sys.stderr)
    for role, outcome in failed.items():
        detail = {Raised: "traceback", Overdue: "stacks"}.get(type(outcome))
        text = getattr(outcome, detail) if detail else "\n".join(logs[role].splitlines()[-20:])
        if text.strip():
            print(f"--- {role}\n{text.rstrip()}", file=sys.stderr)


def _run_rank(case: Case, save: str | None, deadline: float) -> int:
    """Leaves without the interpreter's own shutdown if a rank fails: a live RPC agent may never let it end."""
    try:
        with watch(f"rank {os.environ['RANK']}", logged=True):
            _, value = run_rank(load(case.tutorial()).roles(case), deadline=deadline)
    except WorldError:
        raise
    except Exception as error:
        print(f"rank {os.environ['RANK']} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    if isinstance(value, Trace):
        print(f"{case.tutorial()}: {os.environ['WORLD_SIZE']} roles, {case.steps} steps")
        return _finish(value, save)
    return 0


def run_verify(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference verify", description="Hold tutorials against their twins.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tutorials (default: all)")
    parser.add_argument("--long", action="store_true", help="also the runs that take minutes, and what they must reach")
    options = parser.parse_args(arguments)
    names = [known(name) for name in options.names] or list(TUTORIALS)
    long = long_cases(names) if options.long else []
    if options.long and not long:
        raise BadInput(f"--long adds no run of {', '.join(names)}, wanted {', '.join(CASES_LONG)} among the names")
    wanted: list[tuple[Case, dict[str, bool]]] = [(case, {}) for case in cases(names)]
    wanted += [(case, {"goal": True}) for case in long]
    table = Table(title="verify: RPC against the single-process twin")
    for column in ("tutorial", "case", "roles", "steps", "seconds", "worst difference", "verdict"):
        table.add_column(
            column, justify="right" if column in ("roles", "steps", "seconds") else "left", overflow="fold"
        )
    held = True
    for case, judged_by in wanted:
        with watch(f"{case.tutorial()} {changes(case)}".strip()) as progress:
            row = verify(case, progress, **judged_by)
        held = held and row.holds
        numbers = (str(row.roles), str(case.steps), f"{row.seconds:.1f}")
        texts = (case.tutorial(), changes(case) or "defaults", *numbers, row.difference, row.verdict)
        table.add_row(*map(Text, texts))  # errors have brackets: they are no markup
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    return 0 if held else 1
