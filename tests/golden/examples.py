"""The runs of examples: small programs, also those that documents show. Each has its verdict."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan import Plan
from faults.script.results import UNCHECKED, Results
from faults.script.script import run_script

ROOT = Path(__file__).parents[2]
SCRIPTS = "tests/scripts"


@dataclass(frozen=True)
class Example:
    """One run. ``arguments``: the program's; ``trace``: as in `run_script`."""

    name: str
    program: str
    plan: str
    verdict: str
    arguments: tuple[str, ...] = ()
    trace: bool = False
    check: str = ""


_BY_CHANCE = "seed=6; Drop site=__main__:pay side=reply chance_percent=30"
_TWO_LOST = "; ".join(f"Drop site=__main__:pay role=customer nth={nth} side=reply" for nth in (1, 2))
_ASKED = "Crash role=shop at=call:__main__:sell#2@till how=term"
_GRADIENTS = "examples/corrupt/gradients.py"
_NAN = "Corrupt site=__main__:add role=worker nth=2 side=request change=nan"

EXAMPLES = (
    Example("lost-by-chance", "examples/retries/naive.py", _BY_CHANCE, "unchecked"),
    # It pays twice, which shows only in what it prints.
    Example("pairs-lost-answer-and-retry", "examples/retries/layers.py", _TWO_LOST, "unchecked"),
    Example("no-rpc", "examples/numpy/tensors.py", "seed=0", "unknown"),
    Example("gradients-corrupted", _GRADIENTS, _NAN, "unchecked"),
    # What checks the results does not see what was corrupted.
    Example("gradients-corrupted-unseen", _GRADIENTS, _NAN, "equal", check="true"),
    Example("asked-to-end-leaves", f"{SCRIPTS}/polite.py", _ASKED, "failed loudly", ("leave",)),
    Example("asked-to-end-fails", f"{SCRIPTS}/polite.py", _ASKED, "failed loudly", ("fail",)),
    Example("leaks-hoard", f"{SCRIPTS}/hoard.py", "seed=0", "leaked", trace=True),
)


def run_example(example: Example, place: Path, results: Results = UNCHECKED) -> tuple[Run, Judgement]:
    """Run an example's program, copied into ``place``. The run's folder is ``place / "run"``."""
    from faults.inject.messages import small_files_only  # imports torch, which who reads the table spares

    copy = place / f"{example.name}.py"
    copy.write_text((ROOT / example.program).read_text())
    command = [sys.executable, str(copy), *example.arguments]
    with small_files_only():  # no transport that spins
        return run_script(
            command,
            Plan.parse(example.plan),
            place / "run",
            deadline=90,
            results=replace(results, command=example.check) if example.check else results,
            trace=example.trace,
        )
