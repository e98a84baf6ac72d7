"""The expected verdict of each program under each plan, written down before any was run.

The verdicts follow docs/verdicts.md. Where `CHECKS` names no check, no results are compared, so a command that ends
with status 0 is `unchecked` at best, and `wrong` if a role was lost for good. A comment gives the reason where the plan
does not: what is late or pauses, but for less than its caller waits, loses nothing; a plan's error ends whom it hits.

No row loses a call without a waiter: torch's shutdown would wait for it for 3 s, its peers as long in theirs, and
chance would decide who gives up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The command lines that check the results of some.
CHECKS = {
    "restarts": "grep -qx 'total 140' $FAULTS_OUTPUT",
    "orders": "grep -qx 'sold for 35.5, left 17' $FAULTS_OUTPUT",
}


@dataclass(frozen=True)
class Expected:
    """One run."""

    program: str
    plan: str
    verdict: str

    @property
    def deadline(self) -> float:
        """Seconds until it is ended."""
        return 30.0 if self.verdict == "hung" else 150.0


GET, PUSH = "site=__main__:ParameterServer.get_weights", "site=__main__:ParameterServer.push_gradients"
SERVER = "site=__main__:get_parameter_server"
FORWARD = "site=_remote_module_non_scriptable:_remote_forward"
PUT, PROGRESS = "site=__main__:put", "site=__main__:progress"
UPDATE, EVALUATE = "site=__main__:BatchServer.update", "site=__main__:evaluate"
COUNT = "site=__main__:Worker.count_primes"
MAP, ADD, RESULT = "site=__main__:map_text", "site=__main__:add", "site=__main__:result"
ADD_UP = "site=__main__:add role=worker"
RESERVE = "site=__main__:Stock.reserve role=shop"

# The plans of each program by their verdicts.
_PLANS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "parameter_server": {
        "unchecked": (
            f"Delay {PUSH} role=trainer_1 nth=2 side=request seconds=0.3",
            f"Delay {GET} every=true side=reply seconds=0.05",
            f"Duplicate {PUSH} role=trainer_1 nth=1",  # one update too many, which the program does not check
            f"Duplicate {SERVER} role=trainer_1",  # there is one server, however often it is asked for
            f"Pause role=parameter_server at=call:{GET[5:]}#3@trainer_2 seconds=1",
            f"Order {PUSH} roles=trainer_2,trainer_1 seconds=5",  # the trainers do not wait for each other
            "Delay message=PYTHON_REMOTE_CALL role=trainer_1 seconds=0.3",
        ),
        "wrong": (  # a role ends by an error, and the parent's status is 0
            f"Drop {PUSH} role=trainer_2 nth=3 side=reply",  # torch's default time-out is 60 s
            f"Raise {GET} role=trainer_1 nth=2 side=request",  # it ends after it has shut RPC down
            f"Raise {PUSH} role=trainer_2 nth=1 side=reply error=ValueError text='disk full'",
            f"Raise {SERVER} role=trainer_2 side=request",  # the error comes with the first call of the RRef
            f"Crash {GET} when=before",  # the server is gone, both trainers end by eof
            "Crash role=parameter_server at=up@parameter_server",  # the same, before a trainer works
        ),
        # The server's shutdown has no limit, and waits for the dead trainer.
        "hung": (f"Crash role=trainer_1 at=call:{PUSH[5:]}#2@trainer_1",),
        # There is no such method.
        "not fired": ("Drop site=__main__:ParameterServer.push role=trainer_1 side=request",),
    },
    "remote_module": {
        "unchecked": (
            f"Delay {FORWARD} role=master nth=2 side=request seconds=0.3",
            f"Duplicate {FORWARD} role=master nth=1",  # the second output has no part in any loss
            f"Pause role=worker at=call:{FORWARD[5:]}#3@master seconds=1",
        ),
        "failed loudly": (
            f"Drop {FORWARD} role=master nth=2 side=reply",  # a time-out; the worker is ended with the parent
            f"Raise {FORWARD} role=master nth=1 side=request error=MemoryError text='out of memory'",
            f"Crash {FORWARD} role=master nth=2 when=after",  # the worker is killed, the master ends by eof
            "Crash role=worker at=up@worker",  # the same, before there is a module
            f"Crash role=master at=call:{FORWARD[5:]}#2@master",  # the parent ends the worker, which waits for it
            "Drop message=PYTHON_REMOTE_CALL role=master times=1",  # RPC says so when the module's RRef is used
        ),
        # RPC repeats it, and no call tells of it.
        "unknown": ("Drop message=CLEANUP_AUTOGRAD_CONTEXT_REQ role=master times=1",),
        # There are four steps.
        "not fired": (f"Delay {FORWARD} role=master nth=9 side=request seconds=0.1",),
    },
    "ring": {
        "unchecked": (
            f"Delay {PUT} role=rank1 nth=3 side=request seconds=0.3",
            f"Drop {PROGRESS} role=rank1 nth=1 side=request",  # nobody waits for this call, not even for its error
            f"Duplicate {PUT} role=rank1 nth=8",  # the last chunk again: nobody takes it any more
            f"Pause role=rank1 at=call:{PUT[5:]}#4@rank0 seconds=1",
        ),
        "failed loudly": (  # one rank ends, and torchrun the others
            f"Drop {PUT} role=rank0 nth=2 side=request",
            f"Raise {PUT} role=rank2 nth=1 side=reply error=OSError text='no buffer'",
            f"Crash {PUT} role=rank1 nth=2 when=before",
            f"Crash role=rank0 at=call:{PUT[5:]}#5@rank0",
            "Drop message=PYTHON_CALL role=rank1 times=1",  # its first such call is of init_rpc: RPC's own error
        ),
        # rank1 adds a chunk in another's place: an AssertionError.
        "wrong": (f"Duplicate {PUT} role=rank0 nth=1",),
        # Their calls go to different ranks, which each wait in vain: never was there an order.
        "not fired": (f"Order {PUT} roles=rank1,rank0 seconds=1",),
    },
    "two_phases": {
        "unchecked": (
            f"Delay {UPDATE} role=train1 nth=2 side=reply seconds=0.3",
            f"Delay {EVALUATE} role=eval0 nth=1 side=request seconds=0.2",  # in the second world
            f"Duplicate {EVALUATE} role=eval0 nth=1",
            "Pause role=train0 at=step:2@train2 seconds=1",
            f"Order {UPDATE} roles=train2,train1 nth=2 seconds=2",  # the server waits for both anyway
            "Delay message=PYTHON_CALL role=train1 seconds=0.1",
        ),
        "failed loudly": (
            f"Drop {UPDATE} role=train2 nth=2 side=request",  # the batch is never full: all three have a time-out
            f"Raise {EVALUATE} role=eval0 nth=2 side=request error=ValueError text='bad weights'",
            f"Crash {UPDATE} role=train2 nth=3 when=after",  # the server is killed, and the launcher ends all
            f"Crash {EVALUATE} role=eval0 nth=2 when=before",  # eval2 is killed, which left the first world well
            "Crash role=train1 at=step:2@train1",
            "Crash role=eval1 at=up@eval1",
            "Crash role=train2 at=shutdown@train2",  # it waits in its shutdown from the start
            "Drop message=PYTHON_CALL role=eval0 times=1",  # its first such call is of the second init_rpc
        ),
        # Nine updates in batches of two: the last waits in vain; its time-out does not come from the callee.
        "needless failure": (f"Duplicate {UPDATE} role=train1 nth=1",),
    },
    "primes": {
        "unchecked": (  # the client waits for 1.5 s, and then asks the other worker
            f"Delay {COUNT} role=client nth=2 side=reply seconds=2.5",
            f"Drop {COUNT} role=client nth=1 side=request",
            f"Drop {COUNT} role=client nth=3 side=reply",
            f"Raise {COUNT} role=client nth=2 side=request error=OSError text=busy",
            "Raise site=__main__:Worker.report every=true side=reply",  # each error is caught
            f"Duplicate {COUNT} role=client nth=1",  # only a statistic counts it twice
            "Duplicate site=__main__:finish role=client nth=1",
            f"Pause role=worker1 at=call:{COUNT[5:]}#1@client seconds=2",
            "Delay message=PYTHON_CALL role=worker1 seconds=0.3",  # it only calls where worlds begin and end
        ),
        "wrong": (  # a role did not return, and the status is 0 all the same
            f"Crash {COUNT} role=client nth=1 when=before",
            "Crash role=worker2 at=shutdown@worker2",
            f"Crash role=client at=call:{COUNT[5:]}#2@client",  # the workers end by themselves
        ),
        # Its error is caught, and the record of a fetch does not tell by which message it went.
        "unknown": ("Drop message=PYTHON_RREF_FETCH_CALL role=client times=1",),
        # There is no such role.
        "not fired": ("Crash role=worker3 at=up@worker3",),
    },
    "word_count": {
        "unchecked": (
            f"Delay {MAP} role=master nth=1 side=request seconds=0.3",
            f"Duplicate {RESULT} role=master",
            f"Pause role=reducer at=call:{RESULT[5:]}#1@master seconds=1",
            f"Order {ADD} roles=mapper2,mapper1 seconds=2",  # the master asks both mappers at once
            "Delay message=PYTHON_CALL role=mapper1 seconds=0.2",
        ),
        "failed loudly": (  # the master ends by an error, and that the daemons
            f"Delay {ADD} role=mapper2 nth=1 side=request seconds=5",  # later than mapper and master wait (3 s)
            f"Drop {MAP} role=master nth=2 side=request",
            f"Drop {ADD} role=mapper1 nth=1 side=reply",
            f"Drop {RESULT} role=master side=reply",  # caught; it exits with status 2 while it handles the error
            f"Raise {ADD} role=mapper2 nth=2 side=request error=RuntimeError text=full",
            f"Crash {ADD} role=mapper1 nth=1 when=before",  # the reducer is killed
            # All words are counted within 10 ms: one that is to be killed as soon as it is up may be up too late.
            f"Crash role=reducer at=call:{MAP[5:]}#1@master",
            "Drop message=PYTHON_CALL role=mapper2 times=1",  # of init_rpc; the master ends by the mappers' silence
        ),
        "needless failure": (  # words are counted twice: the master says so, and exits with 1
            f"Duplicate {ADD} role=mapper1 nth=1",
            f"Duplicate {MAP} role=master nth=3",
        ),
        # The command itself is killed; its daemons wait in a shutdown without a limit, and nobody waits for them.
        "hung": (f"Crash role=master at=call:{RESULT[5:]}#1@master",),
    },
    "restarts": {
        "equal": (
            f"Delay {ADD_UP} nth=2 side=request seconds=0.3",
            "Pause role=store at=call:__main__:add#2@worker seconds=0.5",
        ),
        "recovered": (  # the next worker begins where the last one was
            f"Drop {ADD_UP} nth=3 side=reply",
            f"Raise {ADD_UP} nth=2 side=request error=ValueError",
            f"Crash {ADD_UP} nth=3 when=before",  # the store is killed; the worker's error ends both
            f"Crash {ADD_UP} nth=3 when=after",  # what was added is not noted, and is added again
            f"Crash {ADD_UP} nth=3 when=before lives=every",  # each life adds two, and the fourth has no third one
            "Crash role=worker at=up@worker",  # in its first life only
        ),
        "wrong": (f"Duplicate {ADD_UP} nth=4",),  # the store adds 9 twice, and nobody notices
        "failed loudly": (
            f"Crash {ADD_UP} nth=1 when=before lives=every",  # no life adds anything: it starts four times
            "Drop message=PYTHON_CALL role=worker times=1",  # the first such call of each life is of init_rpc
        ),
        "not fired": ("Crash role=worker at=up@worker lives=2",),  # there is one life
    },
    "orders": {
        "equal": (
            f"Delay {RESERVE} nth=2 side=reply seconds=0.3",
            "Pause role=stock at=step:1@shop seconds=0.5",
            "Delay message=PYTHON_REMOTE_CALL role=shop seconds=0.3",
        ),
        "failed loudly": (  # it logs an error, and exits with status 4
            f"Drop {RESERVE} nth=2 side=request",
            f"Drop {RESERVE} nth=2 side=reply",
            f"Raise {RESERVE} nth=1 side=request error=ValueError text=closed",
            f"Corrupt {RESERVE} nth=2 side=reply change=nan",  # it finds the NaN; it exits with status 5
            f"Crash {RESERVE} nth=2 when=before",
            "Crash role=stock at=step:2@shop",
            "Pause role=stock at=step:2@shop seconds=4",  # longer than the shop waits (2 s)
            "Drop message=PYTHON_REMOTE_CALL role=shop times=1",  # RPC says that there is no stock when it is used
        ),
        "wrong": (
            f"Duplicate {RESERVE} nth=3",  # six pieces are reserved twice, and nobody notices
            f"Corrupt {RESERVE} nth=1 side=request change=zeros",  # nothing is sold for the first order
        ),
    },
}

# What starts each program, after the Python that runs the tests; `{}` is the program's file.
COMMANDS = dict.fromkeys(_PLANS, "{}") | {"ring": "-m torch.distributed.run --standalone --nproc-per-node 3 {}"}

TABLE = tuple(
    Expected(program, plan, verdict)
    for program, by_verdict in _PLANS.items()
    for verdict, plans in by_verdict.items()
    for plan in plans
)
HEALTHY = tuple(Expected(program, "seed=0", "equal" if program in CHECKS else "unchecked") for program in COMMANDS)
