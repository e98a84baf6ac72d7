"""The expected verdict of each program under each plan, with the reason; written before any was run.

The verdicts follow docs/verdicts.md. Where a role did not return, these rules decide:

- a role that is killed, or ends by an uncaught error, has not returned, whatever the command's status says;
- after `Delay`, `Order` and `Pause` only a time-out is clean, after `Duplicate` only what the callee raised;
- after `Raise` the plan's error, after the others RPC's own, or one that derives from a call that a fault hit;
- a status that a role chooses while it handles an error is judged by that error.

One of the first 97 verdicts was changed before its run, and one plan had a moment that came too early (see the
history). Another had one that could come too late: all words are counted within 10 ms, by when a reducer that is to be
killed as soon as it is up may not be up yet. One verdict has changed since a role that outlives a killed command is
reported. One row is gone: a lost call without a waiter holds torch's shutdown for 3 s, its peers wait as long in
theirs, and chance decides who gives up.
"""

from __future__ import annotations

from dataclasses import dataclass

# The command that starts each program, after the Python that runs the tests; `{}` is the program's file.
COMMANDS = {
    "parameter_server": "{}",
    "bandit": "{}",
    "remote_module": "{}",
    "ring": "-m torch.distributed.run --standalone --nproc-per-node 3 {}",
    "two_phases": "{}",
    "primes": "{}",
    "word_count": "{}",
}


@dataclass(frozen=True)
class Expected:
    """One run. ``deadline``: seconds until it is ended; short if it is expected to hang."""

    program: str
    plan: str
    verdict: str
    reason: str
    deadline: float = 150.0


def _of(program: str, *rows: tuple[str, str, str] | tuple[str, str, str, float]) -> tuple[Expected, ...]:
    return tuple(Expected(program, *row) for row in rows)


GET, PUSH = "site=__main__:ParameterServer.get_weights", "site=__main__:ParameterServer.push_gradients"
SERVER = "site=__main__:get_parameter_server"

PARAMETER_SERVER = _of(
    "parameter_server",
    (f"Delay {PUSH} role=trainer_1 nth=2 side=request seconds=0.3", "returned", "a slow call loses nothing"),
    (f"Delay {GET} every=true side=reply seconds=0.05", "returned", "slow answers lose nothing"),
    (
        f"Drop {PUSH} role=trainer_2 nth=3 side=reply",
        "clean error",
        "the trainer ends by its time-out, torch's default of 60 s; the parent's status 0 does not say so",
    ),
    (
        f"Raise {GET} role=trainer_1 nth=2 side=request",
        "clean error",
        "the plan's own error ends a trainer, after it has shut RPC down; the parent's status is 0",
    ),
    (
        f"Raise {PUSH} role=trainer_2 nth=1 side=reply error=ValueError text='disk full'",
        "clean error",
        "the same, of a type that keeps its name",
    ),
    (
        f"Raise {SERVER} role=trainer_2 side=request",
        "clean error",
        "the owner never had the server: the plan's error comes with the first call of the RRef",
    ),
    (f"Duplicate {PUSH} role=trainer_1 nth=1", "returned", "one update too many, which the program does not check"),
    (f"Duplicate {SERVER} role=trainer_1", "returned", "there is one server, however often it is asked for"),
    (
        f"Crash {GET} when=before",
        "clean error",
        "the server is gone, both trainers end by eof; the parent's status is 0",
    ),
    (
        "Crash role=parameter_server at=up@parameter_server",
        "clean error",
        "the same, by its own hand: no trainer has begun to work",
    ),
    (
        f"Crash role=trainer_1 at=call:{PUSH[5:]}#2@trainer_1",
        "hung",
        "the server's shutdown has no limit, and waits for the dead trainer",
        30,
    ),
    (
        f"Pause role=parameter_server at=call:{GET[5:]}#3@trainer_2 seconds=1",
        "returned",
        "a pause far below the time-out",
    ),
    (f"Order {PUSH} roles=trainer_2,trainer_1 seconds=5", "returned", "the trainers do not wait for each other"),
    ("Delay message=PYTHON_REMOTE_CALL role=trainer_1 seconds=0.3", "returned", "its only such call is late"),
    (
        "Drop site=__main__:ParameterServer.push role=trainer_1 side=request",
        "not fired",
        "there is no such method: nothing was hurt",
    ),
)

ACT, REPORT, EPISODE = (
    f"site=__main__:{name}" for name in ("Agent.select_action", "Agent.report_reward", "Observer.run_episode")
)

BANDIT = _of(
    "bandit",
    (f"Delay {ACT} role=observer1 nth=3 side=reply seconds=0.3", "returned", "a slow answer loses nothing"),
    (
        f"Delay {EPISODE} role=agent nth=1 side=request seconds=5",
        "clean error",
        "later than the agent waits (3 s): its time-out ends all, before the delay is over",
    ),
    (f"Drop {ACT} role=observer2 nth=4 side=request", "clean error", "a time-out, which agent and launcher pass on"),
    (
        f"Raise {REPORT} role=observer1 nth=5 side=reply error=KeyError text=lost",
        "clean error",
        "the plan's error, passed on through two calls and the launcher",
    ),
    (
        f"Duplicate {ACT} role=observer1 nth=2",
        "wrong",
        "one action more than rewards: sizes do not match, in the agent's own code",
    ),
    (f"Duplicate {REPORT} role=observer2 nth=1", "wrong", "one reward more than actions: the same"),
    (f"Crash {EPISODE} role=agent nth=1 when=before", "clean error", "observer1 is killed; eof, the launcher ends all"),
    (f"Crash {ACT} role=observer1 nth=3 when=after", "clean error", "the agent is killed, and the launcher ends all"),
    (
        f"Crash role=observer2 at=call:{REPORT[5:]}#2@observer2",
        "clean error",
        "an observer dies by its own hand, and the launcher ends all",
    ),
    (
        f"Pause role=observer1 at=call:{EPISODE[5:]}#1@agent seconds=6",
        "clean error",
        "longer than the agent waits (3 s): a time-out",
    ),
    (f"Order {ACT} roles=observer2,observer1 seconds=2", "returned", "the observers do not wait for each other"),
    (
        "Drop message=PYTHON_REMOTE_CALL role=agent times=1",
        "clean error",
        "no observer was made: RPC says so when its RRef is passed on",
    ),
    ("Delay message=PYTHON_CALL role=observer1 seconds=0.1", "returned", "its ten calls of an episode take 1 of 3 s"),
    ("Drop message=RREF_USER_DELETE role=observer2 times=1", "unknown", "RPC repeats it, and no call tells of it"),
)

FORWARD = "site=_remote_module_non_scriptable:_remote_forward"

REMOTE_MODULE = _of(
    "remote_module",
    (f"Delay {FORWARD} role=master nth=2 side=request seconds=0.3", "returned", "a slow call loses nothing"),
    (
        f"Drop {FORWARD} role=master nth=2 side=reply",
        "clean error",
        "a time-out ends the master; the worker is ended with the parent",
    ),
    (
        f"Raise {FORWARD} role=master nth=1 side=request error=MemoryError text='out of memory'",
        "clean error",
        "the plan's error ends the master",
    ),
    (f"Duplicate {FORWARD} role=master nth=1", "returned", "the second output has no part in any loss"),
    (f"Crash {FORWARD} role=master nth=2 when=after", "clean error", "the worker is killed, the master ends by eof"),
    ("Crash role=worker at=up@worker", "clean error", "the same, by its own hand, before there is a module"),
    (
        f"Crash role=master at=call:{FORWARD[5:]}#2@master",
        "clean error",
        "the master dies by its own hand; the parent ends the worker, which waits for it",
    ),
    (f"Pause role=worker at=call:{FORWARD[5:]}#3@master seconds=1", "returned", "a pause below the time-out"),
    (
        "Drop message=PYTHON_REMOTE_CALL role=master times=1",
        "clean error",
        "the module was never made: RPC says so when its RRef is used",
    ),
    (
        "Drop message=CLEANUP_AUTOGRAD_CONTEXT_REQ role=master times=1",
        "unknown",
        "RPC repeats it, and no call tells of it",
    ),
    (f"Delay {FORWARD} role=master nth=9 side=request seconds=0.1", "not fired", "there are four steps"),
)

PUT, PROGRESS = "site=__main__:put", "site=__main__:progress"

RING = _of(
    "ring",
    (f"Delay {PUT} role=rank1 nth=3 side=request seconds=0.3", "returned", "a slow chunk is awaited"),
    (f"Drop {PUT} role=rank0 nth=2 side=request", "clean error", "a time-out ends rank0, and torchrun the others"),
    (
        f"Drop {PROGRESS} role=rank1 nth=1 side=request",
        "returned",
        "nobody waits for this call, not even for its error",
    ),
    (
        f"Raise {PUT} role=rank2 nth=1 side=reply error=OSError text='no buffer'",
        "clean error",
        "the plan's error ends rank2, and torchrun the others",
    ),
    (f"Duplicate {PUT} role=rank0 nth=1", "wrong", "rank1 adds a chunk in another's place: an AssertionError"),
    (f"Duplicate {PUT} role=rank1 nth=8", "returned", "the last chunk again: nobody takes it any more"),
    (f"Crash {PUT} role=rank1 nth=2 when=before", "clean error", "rank2 is killed, and torchrun ends the others"),
    (f"Crash role=rank0 at=call:{PUT[5:]}#5@rank0", "clean error", "the same, by its own hand"),
    (f"Pause role=rank1 at=call:{PUT[5:]}#4@rank0 seconds=1", "returned", "a pause below the time-out"),
    (
        f"Order {PUT} roles=rank1,rank0 seconds=1",
        "not fired",
        "their calls go to different ranks, which each wait in vain: never was there an order",
    ),
    (
        "Drop message=PYTHON_CALL role=rank1 times=1",
        "clean error",
        "its first such call is of init_rpc: RPC's own error ends it, and torchrun the others",
    ),
)

UPDATE, EVALUATE = "site=__main__:BatchServer.update", "site=__main__:evaluate"

TWO_PHASES = _of(
    "two_phases",
    (f"Delay {UPDATE} role=train1 nth=2 side=reply seconds=0.3", "returned", "a slow answer loses nothing"),
    (f"Delay {EVALUATE} role=eval0 nth=1 side=request seconds=0.2", "returned", "the same, in the second world"),
    (
        f"Drop {UPDATE} role=train2 nth=2 side=request",
        "clean error",
        "the batch is never full: both trainers and the server have a time-out",
    ),
    (
        f"Raise {EVALUATE} role=eval0 nth=2 side=request error=ValueError text='bad weights'",
        "clean error",
        "the plan's error, in the second world",
    ),
    (
        f"Duplicate {UPDATE} role=train1 nth=1",
        "wrong",
        "nine updates in batches of two: the last waits in vain; its time-out does not come from the callee",
    ),
    (f"Duplicate {EVALUATE} role=eval0 nth=1", "returned", "it changes nothing"),
    (f"Crash {UPDATE} role=train2 nth=3 when=after", "clean error", "the server is killed, and the launcher ends all"),
    (
        f"Crash {EVALUATE} role=eval0 nth=2 when=before",
        "clean error",
        "eval2 is killed, which left the first world well",
    ),
    ("Crash role=train1 at=step:2@train1", "clean error", "a trainer dies by its own hand, at a step that it logs"),
    ("Crash role=eval1 at=up@eval1", "clean error", "the same, at the start of the second world"),
    ("Crash role=train2 at=shutdown@train2", "clean error", "it waits in its shutdown from the start: it dies there"),
    ("Pause role=train0 at=step:2@train2 seconds=1", "returned", "a pause below the time-out"),
    (f"Order {UPDATE} roles=train2,train1 nth=2 seconds=2", "returned", "the server waits for both anyway"),
    ("Delay message=PYTHON_CALL role=train1 seconds=0.1", "returned", "its four updates are late"),
    (
        "Drop message=PYTHON_CALL role=eval0 times=1",
        "clean error",
        "its first such call is of the second init_rpc: RPC's own error",
    ),
)

COUNT = "site=__main__:Worker.count_primes"

PRIMES = _of(
    "primes",
    (
        f"Delay {COUNT} role=client nth=2 side=reply seconds=2.5",
        "returned",
        "later than the client waits (1.5 s), which asks the other worker",
    ),
    (f"Drop {COUNT} role=client nth=1 side=request", "returned", "the other worker is asked"),
    (f"Drop {COUNT} role=client nth=3 side=reply", "returned", "the other worker is asked"),
    (f"Raise {COUNT} role=client nth=2 side=request error=OSError text=busy", "returned", "the other worker is asked"),
    ("Raise site=__main__:Worker.report every=true side=reply", "returned", "each error is caught"),
    (f"Duplicate {COUNT} role=client nth=1", "returned", "only a statistic counts it twice"),
    ("Duplicate site=__main__:finish role=client nth=1", "returned", "an event that is set twice is set"),
    (
        f"Crash {COUNT} role=client nth=1 when=before",
        "clean error",
        "all results are right and the status is 0, yet worker1 did not return: the plan killed it",
    ),
    ("Crash role=worker2 at=shutdown@worker2", "clean error", "the same, by its own hand, when all work is done"),
    (
        f"Crash role=client at=call:{COUNT[5:]}#2@client",
        "clean error",
        "the client is killed by the plan, and nobody reads its exit code; the workers end by themselves",
    ),
    (
        f"Pause role=worker1 at=call:{COUNT[5:]}#1@client seconds=2",
        "returned",
        "longer than the client waits, which asks the other worker",
    ),
    ("Delay message=PYTHON_CALL role=worker1 seconds=0.3", "returned", "it only calls where worlds begin and end"),
    (
        "Drop message=PYTHON_RREF_FETCH_CALL role=client times=1",
        "unknown",
        "its error is caught, and fetches are not recorded",
    ),
    ("Crash role=worker3 at=up@worker3", "not fired", "there is no such role"),
)

MAP, ADD, RESULT = "site=__main__:map_text", "site=__main__:add", "site=__main__:result"

WORD_COUNT = _of(
    "word_count",
    (f"Delay {MAP} role=master nth=1 side=request seconds=0.3", "returned", "a slow call loses nothing"),
    (
        f"Delay {ADD} role=mapper2 nth=1 side=request seconds=5",
        "clean error",
        "later than the mapper and the master wait (3 s): a time-out, before the delay is over",
    ),
    (f"Drop {MAP} role=master nth=2 side=request", "clean error", "a time-out ends the master, and that the daemons"),
    (f"Drop {ADD} role=mapper1 nth=1 side=reply", "clean error", "the same, one call further"),
    (
        f"Drop {RESULT} role=master side=reply",
        "clean error",
        "the master catches its time-out, and exits with status 2 while it handles it: from that error",
    ),
    (
        f"Raise {ADD} role=mapper2 nth=2 side=request error=RuntimeError text=full",
        "clean error",
        "the plan's error ends the master, through two calls",
    ),
    (f"Duplicate {ADD} role=mapper1 nth=1", "wrong", "words are counted twice: the master says so, and exits with 1"),
    (f"Duplicate {MAP} role=master nth=3", "wrong", "the same, one call earlier"),
    (f"Duplicate {RESULT} role=master", "returned", "it changes nothing"),
    (
        f"Crash {ADD} role=mapper1 nth=1 when=before",
        "clean error",
        "the reducer is killed, the master ends by an error",
    ),
    (
        f"Crash role=master at=call:{RESULT[5:]}#1@master",
        "unknown",
        "the plan kills the command itself; its daemons wait in a shutdown without a limit, and nobody waits for them",
    ),
    (
        f"Crash role=reducer at=call:{MAP[5:]}#1@master",
        "clean error",
        "the reducer is gone before there is a word to add: the master dies by an error",
    ),
    (f"Pause role=reducer at=call:{RESULT[5:]}#1@master seconds=1", "returned", "a pause below the time-out"),
    (f"Order {ADD} roles=mapper2,mapper1 seconds=2", "returned", "the master asks both mappers at once"),
    ("Delay message=PYTHON_CALL role=mapper1 seconds=0.2", "returned", "its calls are late"),
    (
        "Drop message=PYTHON_CALL role=mapper2 times=1",
        "clean error",
        "its first such call is of init_rpc: it ends by RPC's own error, and the master by the mappers' silence",
    ),
)

TABLE = (*PARAMETER_SERVER, *BANDIT, *REMOTE_MODULE, *RING, *TWO_PHASES, *PRIMES, *WORD_COUNT)
HEALTHY = tuple(Expected(program, "seed=0", "returned", "nothing is hurt") for program in COMMANDS)
