"""Run ``run NAME``: train one tutorial on this machine, or play the role of this rank under torchrun."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from torch._C._distributed_rpc import _is_current_rpc_agent_set

from reference import TUTORIALS, load
from reference.cli.options import (
    BadInput,
    Parser,
    add_case_options,
    check_device,
    check_writable,
    known,
    report_failure,
    whole_number,
)
from reference.cli.progress_bar import watch
from reference.cli.table_command import OPTIONS, grid_of, run_table
from reference.outcome import WorldError
from reference.system.files import Unusable
from reference.system.interrupts import under_torchrun
from reference.system.text import one_line, printable, shown
from reference.trace.case import Case, listed
from reference.trace.checkpoint import MISSING, Checkpoints
from reference.trace.trace import Trace, TraceError
from reference.verify.verify import culprits, exit_status, judged, prove, trace_of
from reference.world.launcher import launch
from reference.world.torchrun import number_in, run_rank

# The options of checkpoints and restarts, with their defaults.
_UNSAVED = {"checkpoint": None, "resume": None, "every": 1, "optional_checkpoints": False, "restarts": 0}


def run(arguments: Sequence[str]) -> int:
    """Train one tutorial; under torchrun, play the role of this rank."""
    if not arguments:
        raise BadInput(f"run got no tutorial, wanted one of {', '.join(TUTORIALS)}")
    if arguments[0] in ("-h", "--help"):
        print("usage: python -m reference run NAME [options]; `run NAME --help` lists a tutorial's options")
        print(f"NAME: {', '.join(TUTORIALS)}")
        return 0
    name = known(arguments[0])
    options = vars(run_parser(name).parse_args(arguments[1:]))
    save, deadline, verifies = (options.pop(key) for key in ("save", "deadline", "verify"))
    saving = {key: options.pop(key) for key in _UNSAVED}
    chosen = {key: options.pop(key) for key in (option.replace("-", "_") for option in OPTIONS.get(name, ()))}
    given = {key: value for key, value in options.items() if value is not None}
    if given.get("arithmetic") == "exact":
        scaled = fitted(name, given, world_size()) if under_torchrun() else given
        given = {**load(name).Case.EXACT, **scaled}  # fields that the user does not set get values that fit
    picture = chosen.get("picture") or f"{name}.png"
    single = "--verify" if verifies else "--save" if save is not None else _of_lives(saving)
    grid = grid_of(name, given, chosen, picture, deadline, single)
    if grid is not None:
        return run_table(name, grid, picture, deadline)
    if save is None and not verifies:
        given.setdefault("record", "ends")  # nobody will see what the steps in between record
    if under_torchrun():
        given = fitted(name, given, world_size())
        if saving["restarts"]:
            raise BadInput("--restarts has no effect under torchrun, wanted its own --max-restarts")
        if saving["checkpoint"] and os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
            raise BadInput("--checkpoint refuses what an earlier start has saved, wanted --resume with --max-restarts")
    case = load(name).Case(**given)
    check_device(case)
    restarts = saving.pop("restarts")
    checkpoints = checkpoints_of(case, **saving)
    if save is not None:
        check_writable(save)
    prove(case)
    if under_torchrun():
        return _run_rank(case, save, verifies, deadline, checkpoints)
    return _run_here(case, save, verifies, deadline, checkpoints, restarts)


def run_parser(name: str) -> Parser:
    """Return the parser of the options that ``run`` takes for a tutorial."""
    parser = Parser(
        prog=f"python -m reference run {name}",
        description=(load(name).__doc__ or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_case_options(parser, load(name).Case(), saves=True)
    parser.add_argument("--save", metavar="FILE", help="save the trace there, as safetensors (default: not saved)")
    parser.add_argument(
        "--verify", action="store_true", help="compare the run with its twin; status 1: it is wrong; 3: unknown"
    )
    limit = "seconds for each run; under torchrun, for which a rank waits for the others when it has finished"
    parser.add_argument("--deadline", type=float, default=3600.0, metavar="X", help=f"{limit} (default: 3600)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--checkpoint", metavar="DIR", help="save a checkpoint of all roles after each step, there")
    where.add_argument("--resume", metavar="DIR", help="the same, and go on from the last checkpoint that is there")
    parser.add_argument(
        "--every", type=whole_number, default=1, metavar="N", help="steps from one checkpoint to the next (default: 1)"
    )
    parser.add_argument(
        "--optional-checkpoints", action="store_true", help="go on without a checkpoint that cannot be written"
    )
    again = "how often to start again when a role is lost, from the last checkpoint; torchrun has --max-restarts"
    parser.add_argument("--restarts", type=whole_number, default=0, metavar="K", help=f"{again} (default: 0)")
    for option, keywords in OPTIONS.get(name, {}).items():
        parser.add_argument(f"--{option}", **keywords)
    return parser


def fitted(name: str, given: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Set the case's number of roles to torchrun's number of processes, unless the user set it."""
    module = load(name)
    for item in listed(module.Case):
        if item.metadata.get("scales") and item.name not in given:
            case = module.Case(**{field: value for field, value in given.items() if field != "arithmetic"})
            others = len(module.roles(case)) - getattr(case, item.name)
            return {**given, item.name: size - others}
    return dict(given)


def world_size() -> int:
    """Read torchrun's number of processes."""
    size = number_in("WORLD_SIZE")
    if size is None:
        raise BadInput(f"WORLD_SIZE must be a number, got {shown(os.environ['WORLD_SIZE'])}")
    return size


def _of_lives(saving: Mapping[str, Any]) -> str:
    """Name an option that the user gave for checkpoints or restarts; empty if there is none."""
    return next((f"--{name.replace('_', '-')}" for name, value in saving.items() if value != _UNSAVED[name]), "")


def checkpoints_of(
    case: Case, *, checkpoint: str | None, resume: str | None, every: int, optional_checkpoints: bool
) -> Checkpoints | None:
    """Make what the options ask for. Raises BadInput: some have no effect without others."""
    folder = resume if checkpoint is None else checkpoint
    if folder == "":
        raise BadInput("checkpoints need a folder, got an empty name")
    if folder is None:
        if every != 1 or optional_checkpoints:
            raise BadInput("--every and --optional-checkpoints need --checkpoint or --resume")
        return None
    if not hasattr(case, "dtype"):
        raise BadInput(f"{case.tutorial()} trains nothing, so it has no checkpoints")
    how: dict[str, Any] = {"every": every, "resume": resume is not None, "optional": optional_checkpoints}
    return Checkpoints.of_case(os.path.realpath(folder), case, [*load(case.tutorial()).roles(case)], **how)


def _run_here(
    case: Case, save: str | None, verifies: bool, deadline: float, checkpoints: Checkpoints | None, restarts: int
) -> int:
    roles = load(case.tutorial()).roles(case)
    again: dict[str, Any] = {"checkpoints": checkpoints, "restarts": restarts}
    start = time.monotonic()
    with (
        watch(case.tutorial()) as progress,
        launch(roles, deadline=deadline, on_progress=progress, isolated=True, **again) as world,
    ):
        outcomes = world.wait()
        logs = {name: world.log(name) for name in culprits(outcomes)}
        missing = [
            f"{name}: {MISSING}{line.partition(MISSING)[2]}"
            for name in roles
            for line in world.log(name).splitlines()
            if MISSING in line
        ]
    if missing:
        print(f"{missing[0]}{f' (and {len(missing) - 1} more)' * (len(missing) > 1)}", file=sys.stderr)
    try:
        trace = trace_of(outcomes)
    except TraceError:
        report_failure(case.tutorial(), culprits(outcomes), logs)
        return 1
    print(f"{case.tutorial()}: {len(roles)} roles, {case.steps} steps in {time.monotonic() - start:.1f} s")
    return _finish(trace, save, verifies)


def _finish(trace: Trace, save: str | None, verifies: bool) -> int:
    """Print the losses, save the trace, compare it with its twin. Return the exit status."""
    losses = trace.losses()
    if losses:
        print(f"  mean loss {losses[0]:.6g} at the first step, {losses[-1]:.6g} at the last")
    status = 0
    if save is not None:
        try:
            trace.save(save)
            print(f"saved {len(trace.tensors)} tensors to {printable(save)}")
        except (OSError, TraceError) as error:
            print(one_line(f"error: training succeeded, but {save} cannot be written: {error}"), file=sys.stderr)
            status = 2
    return (_verify(trace) if verifies else 0) or status


def _verify(trace: Trace) -> int:
    difference, verdict, explanation = judged(trace)
    for line in (f"{verdict}: {difference}", *explanation):
        print(one_line(line))
    return exit_status([verdict])


def _run_rank(case: Case, save: str | None, verifies: bool, deadline: float, checkpoints: Checkpoints | None) -> int:
    """Play this rank's role. After a failure, skip the interpreter's own shutdown: a live RPC agent can block it."""
    try:
        with watch(f"rank {os.environ['RANK']}", logged=True):
            _, value = run_rank(load(case.tutorial()).roles(case), deadline=deadline, before=checkpoints)
    except WorldError:
        raise
    except Exception as error:
        if isinstance(error, Unusable) and not _is_current_rpc_agent_set():  # a checkpoint's folder is refused
            raise
        traceback.print_exc()
        failed = one_line(f"rank {os.environ['RANK']} failed: {type(error).__name__}: {error}")
        print(failed, file=sys.stderr, flush=True)
        os._exit(1)
    if isinstance(value, Trace):
        print(f"{case.tutorial()}: {os.environ['WORLD_SIZE']} roles, {case.steps} steps")
        return _finish(value, save, verifies)
    return 0
