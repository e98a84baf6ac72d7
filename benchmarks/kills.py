"""Kill roles of all tutorials at random moments, start their worlds again, and compare each trace with its twin's.

    python benchmarks/kills.py --kills 200 --seed 0

The moments are random in the run of a tutorial's small case, from before the start of RPC to after the last step. Exit
status 1: a trace had other bits, or a world did not end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import measure

from reference import TUTORIALS, load
from reference.outcome import Returned
from reference.trace.case import Case
from reference.trace.checkpoint import Checkpoints
from reference.trace.trace import TraceError
from reference.training.training_case import TrainingCase
from reference.verify.verify import judge, quick, trace_of
from reference.world import World, launch

LIVES = 1000
DEADLINE = 600.0


class Killer(threading.Thread):
    """Kills roles of a world at random moments until it has killed as many as it may, or the world has ended."""

    def __init__(self, world: World, most: int, pause: float, draws: random.Random) -> None:
        super().__init__(daemon=True)
        self.world, self.most, self.pause, self.draws = world, most, pause, draws
        self.ended = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while self.killed < self.most and not self.ended.wait(self.draws.uniform(0, self.pause)):
            life, pids = self.world.life, [*self.world.pids.values()]
            with suppress(ProcessLookupError):
                os.kill(self.draws.choice(pids), signal.SIGKILL)
                self.killed += 1
            while self.world.life == life and not self.ended.wait(0.01):  # nothing tells of a new life
                pass


def hurt(case: Case, most: int, draws: random.Random) -> tuple[int, str]:
    """Play one case, and return the kills and the verdict of its trace."""
    roles = load(case.tutorial()).roles(case)
    begun = time.monotonic()
    measure.play(roles, deadline=DEADLINE, isolated=True)
    usual = time.monotonic() - begun
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        checkpoints = Checkpoints.of_case(Path(folder), case, [*roles], resume=True)
        how: dict[str, Any] = {"checkpoints": checkpoints, "restarts": LIVES, "deadline": DEADLINE, "isolated": True}
        with launch(roles, **how) as world:
            killer = Killer(world, most, usual, draws)
            killer.start()
            try:
                outcomes = world.wait()
            finally:
                killer.ended.set()
                killer.join()
    try:
        trace = trace_of(outcomes)
    except TraceError:
        return killer.killed, "; ".join(f"{n} {o}" for n, o in outcomes.items() if not isinstance(o, Returned))
    return killer.killed, judge(trace, load(case.tutorial()).train_locally)[1]


def main() -> None:
    built = measure.parser(__doc__ or "")
    built.add_argument("--kills", type=measure.count, default=200, metavar="N", help="in all, at least")
    built.add_argument("--each", type=measure.count, default=8, metavar="N", help="in one world, at most")
    built.add_argument("--steps", type=measure.count, default=8, metavar="N", help="of each world")
    built.add_argument("--seed", type=int, default=0, metavar="N", help="of moments and roles")
    wanted = built.parse_args()
    facts = measure.machine()
    draws, rows, wrong, total = random.Random(wanted.seed), dict[str, list[int]](), list[str](), 0
    names = [name for name in TUTORIALS if issubclass(load(name).Case, TrainingCase)]
    while total < wanted.kills:
        for name in names:
            kills, verdict = hurt(quick(name, steps=wanted.steps), wanted.each, draws)
            total += kills
            row = rows.setdefault(name, [0, 0, 0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + kills, row[2] + (verdict == "equal")
            if verdict != "equal":
                wrong.append(f"{name}: {verdict}")
            measure.note(f"{name}: {kills} kills, {verdict}; {total} of {wanted.kills}")
    cells = [[name, *map(str, row)] for name, row in rows.items()]
    print(measure.heading(facts) + measure.table(["tutorial", "worlds", "kills", "equal bits"], cells))
    measure.write(wanted.json, "kills", facts, seed=wanted.seed, rows=rows, wrong=wrong)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    measure.run(main)
