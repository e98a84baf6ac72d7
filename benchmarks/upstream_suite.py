"""Run torch's own tests of RPC, which its wheel contains, in the processes of `launch`.

    python benchmarks/upstream_suite.py [--tests PATTERN] [--plan PLAN] [--record] [--compare N] [--json FILE]

torch starts four new interpreters for each test. Here the roles are forked, as in every world. Each starts RPC as the
test asks, but with `launch`'s transports. ``--record`` records all calls, ``--plan`` installs a plan of faults: both
should change no outcome. ``--compare`` runs that many tests in torch's own harness, too, one after the other. Needs the
package expecttest, as torch's tests do.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed.rpc as rpc
from torch.testing._internal.distributed import rpc_utils
from torch.testing._internal.distributed.rpc import faulty_rpc_agent_test_fixture as faulty
from torch.testing._internal.distributed.rpc import tensorpipe_rpc_agent_test_fixture as tensorpipe

from faults import hook
from faults.plan import Plan
from faults.run.runs import prepared
from reference.outcome import Returned
from reference.world import launch, role
from reference.world.rpc_agent import LOCAL_OPTIONS, ready_for_many
from reference.world.start import also_preloaded

LIMIT = 120.0


class LocalFixture(tensorpipe.TensorPipeRpcAgentTestFixture):
    """Torch's fixture of TensorPipe with the transports and channels of `launch`."""

    @property
    def rpc_backend_options(self) -> Any:
        return rpc.TensorPipeRpcBackendOptions(init_method=self.init_method, **LOCAL_OPTIONS)


def generated(fixture: type, suites: Sequence[type], prefix: str = "") -> dict[str, type]:
    return dict(rpc_utils.generate_tests(prefix, fixture, list(suites), __name__))


# torch's own test files make these classes: test_tensorpipe_agent.py and test_faulty_agent.py.
TENSORPIPE = [*rpc_utils.GENERIC_TESTS, *rpc_utils.TENSORPIPE_TESTS]
FAULTY = (faulty.FaultyRpcAgentTestFixture, rpc_utils.FAULTY_AGENT_TESTS)
CLASSES = {**generated(LocalFixture, TENSORPIPE), **generated(*FAULTY)}
UPSTREAM = {
    **generated(tensorpipe.TensorPipeRpcAgentTestFixture, TENSORPIPE, "Upstream"),
    **generated(*FAULTY, "Upstream"),
}
globals().update(CLASSES | UPSTREAM)  # they are sent to processes by name


@dataclass(frozen=True)
class Result:
    """``end``: passed, skipped or failed. ``said``: how each role that failed ended, and the end of its log."""

    test: str
    end: str
    seconds: float
    said: str = ""


def without_rpc(folder: str | None, name: str) -> None:
    """Runs in each role before its start: the test starts RPC itself, and ends it."""
    vars(role)["start_agent"] = nothing
    if folder is not None:
        hook.install(folder, name, record=True)


def play(class_name: str, test: str, rank: int, meeting: str) -> str:
    """Run one test in one role. Returns how it ended, and why if it failed."""
    case = CLASSES[class_name](test)
    case.rank, case.file_name = rank, meeting
    try:
        with ready_for_many():
            getattr(case, test)()
    except unittest.SkipTest:
        return "skipped"
    except SystemExit as end:  # a decorator of torch's leaves so, to skip
        return "skipped" if end.code else "passed"
    except BaseException:
        return f"failed: {traceback.format_exc()}"
    finally:
        vars(rpc)["shutdown"] = nothing  # there is no RPC left that the role could end
    return "passed"


def nothing(*arguments: object, **named: object) -> None:
    """Take the place of what starts or ends RPC."""


def run(name: str, plan: Plan | None) -> Result:
    """Run one test in a world of its own."""
    class_name, _, test = name.partition(".")
    size = CLASSES[class_name](test).world_size
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if plan is not None:
            prepared(plan, folder)
        roles = {f"worker{rank}": partial(play, class_name, test, rank, f"{folder}/store") for rank in range(size)}
        before = partial(without_rpc, folder if plan is not None else None)
        with launch(roles, deadline=LIMIT, before=before, isolated=True) as world:
            outcomes = world.wait()
            logs = {each: world.log(each) for each in roles}
    seconds = time.monotonic() - begun
    ends = {
        each: outcome.value if isinstance(outcome, Returned) else str(outcome) for each, outcome in outcomes.items()
    }
    wrong = [each for each, end in ends.items() if end not in ("passed", "skipped")]
    # As torch does: one process that skipped the test is enough.
    end = "failed" if wrong else "skipped" if "skipped" in ends.values() else "passed"
    return Result(name, end, seconds, "\n".join(f"{each}: {ends[each]}\n{logs[each][-1500:]}" for each in wrong))


def in_torchs_harness(name: str) -> Result:
    """Run one test as torch does, with its own transports."""
    begun = time.monotonic()
    code = f"import sys, unittest; sys.path.insert(0, {str(Path(__file__).parent)!r}); import upstream_suite as u; "
    code += f"unittest.main(u, argv=['x', 'Upstream{name}'])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=600)
    skipped = "skipped=1" in done.stderr
    end = "failed" if done.returncode else "skipped" if skipped else "passed"
    return Result(name, end, time.monotonic() - begun, done.stderr[-1500:] if done.returncode else "")


def tests(pattern: str) -> list[str]:
    """Return all tests, as Class.test_name."""
    every = [f"{name}.{test}" for name, each in CLASSES.items() for test in dir(each) if test.startswith("test_")]
    return [each for each in every if fnmatch.fnmatch(each, pattern)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default="*", metavar="PATTERN", help="of Class.test_name")
    parser.add_argument("--plan", type=Plan.parse, metavar="PLAN", help="faults for all tests")
    parser.add_argument("--record", action="store_true", help="record all calls")
    parser.add_argument("--compare", type=int, default=0, metavar="N", help="run as many in torch's own harness, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    also_preloaded.append(rpc_utils.__name__)
    plan = options.plan or (Plan.parse("") if options.record else None)
    results = []
    for name in (chosen := tests(options.tests)):
        results.append(run(name, plan))
        print(f"{results[-1].end:8} {results[-1].seconds:6.2f} s  {name}", file=sys.stderr, flush=True)
    by_class: defaultdict[str, list[Result]] = defaultdict(list)
    for each in results:
        by_class[each.test.partition(".")[0]].append(each)
    print("| class | tests | passed | skipped | failed | seconds |\n|---|---|---|---|---|---|")
    for name, own in [*by_class.items(), ("all", results)]:
        ends = Counter(each.end for each in own)
        counts = " | ".join(str(ends[end]) for end in ("passed", "skipped", "failed"))
        print(f"| {name} | {len(own)} | {counts} | {sum(each.seconds for each in own):.1f} |")
    sample = random.Random(0).sample(chosen, min(options.compare, len(chosen)))
    theirs = [in_torchs_harness(name) for name in sample]
    ours = [each for each in results if each.test in sample]
    if theirs:
        ratio = sum(each.seconds for each in theirs) / sum(each.seconds for each in ours)
        print(
            f"{len(theirs)} tests in torch's harness: {sum(each.seconds for each in theirs):.0f} s, {ratio:.1f} times"
        )
    if options.json is not None:
        options.json.write_text(json.dumps([[asdict(each) for each in kind] for kind in (results, theirs)], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
