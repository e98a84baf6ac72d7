"""What ``ps`` plays in the tests of the batch barrier: the tutorial's server, which stays to see what it has caused."""

from __future__ import annotations

from dataclasses import dataclass

from reference.batch_parameter_server import BatchUpdateParameterServer, RoundFailed, RunPs
from reference.trace import Trace

# Longer than anything here takes (seconds).
LONG = 20.0


@dataclass(frozen=True)
class StayingPs(RunPs):
    """`RunPs`, but a failure is only raised when these trainers' runs have ended too.

    The tutorial's own server raises, and its role ends, as soon as the failure is known: its last answers may then be
    lost with its process.
    """

    others: tuple[str, ...] = ()

    def train(self, ps: BatchUpdateParameterServer) -> Trace:
        try:
            return super().train(ps)
        except RoundFailed:
            while not set(self.others) <= ps.ended:
                ps.events.get(timeout=LONG)
            raise
