"""The expected verdict of each program under each plan, with the reason; written before any was run.

The verdicts follow docs/verdicts.md. Where `CHECKS` names no check, no results are compared, so a command that ends
with status 0 is `unchecked` at best, and `wrong` if a role was lost for good.

One of the first 97 verdicts was changed before its run, and one plan had a moment that came too early (see the
history). Another had one that could come too late: all words are counted within 10 ms, by when a reducer that is to be
killed as soon as it is up may not be up yet. All verdicts were written anew for the rules of that page; of those that
changed in more than their word, the reason says why. One row is gone: a lost call without a waiter holds torch's
shutdown for 3 s, its peers wait as long in theirs, and chance decides who gives up.
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
    "backoff": "{}",
    "restarts": "{}",
    "orders": "{}",
}
# The command lines that check the results of some.
CHECKS = {
    "backoff": "grep -qx 'balance: 1111' $FAULTS_OUTPUT",
    "restarts": "grep -qx 'total 140' $FAULTS_OUTPUT",
    "orders": "grep -qx 'sold for 35.5, left 17' $FAULTS_OUTPUT",
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
    (f"Delay {PUSH} role=trainer_1 nth=2 side=request seconds=0.3", "unchecked", "a slow call loses nothing"),
    (f"Delay {GET} every=true side=reply seconds=0.05", "unchecked", "slow answers lose nothing"),
    (
        f"Drop {PUSH} role=trainer_2 nth=3 side=reply",
        "wrong",
        "the trainer ends by its time-out, torch's default of 60 s, and the parent's status is 0",
    ),
    (
        f"Raise {GET} role=trainer_1 nth=2 side=request",
        "wrong",
        "the plan's own error ends a trainer, after it has shut RPC down; the parent's status is 0",
    ),
    (
        f"Raise {PUSH} role=trainer_2 nth=1 side=reply error=ValueError text='disk full'",
        "wrong",
        "the same, of a type that keeps its name",
    ),
    (
        f"Raise {SERVER} role=trainer_2 side=request",
        "wrong",
        "the owner never had the server: the plan's error comes with the first call of the RRef",
    ),
    (f"Duplicate {PUSH} role=trainer_1 nth=1", "unchecked", "one update too many, which the program does not check"),
    (f"Duplicate {SERVER} role=trainer_1", "unchecked", "there is one server, however often it is asked for"),
    (
        f"Crash {GET} when=before",
        "wrong",
        "the server is gone, both trainers end by eof; the parent's status is 0",
    ),
    (
        "Crash role=parameter_server at=up@parameter_server",
        "wrong",
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
        "unchecked",
        "a pause far below the time-out",
    ),
    (f"Order {PUSH} roles=trainer_2,trainer_1 seconds=5", "unchecked", "the trainers do not wait for each other"),
    ("Delay message=PYTHON_REMOTE_CALL role=trainer_1 seconds=0.3", "unchecked", "its only such call is late"),
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
    (f"Delay {ACT} role=observer1 nth=3 side=reply seconds=0.3", "unchecked", "a slow answer loses nothing"),
    (
        f"Delay {EPISODE} role=agent nth=1 side=request seconds=5",
        "failed loudly",
        "later than the agent waits (3 s): its time-out ends all, before the delay is over",
    ),
    (f"Drop {ACT} role=observer2 nth=4 side=request", "failed loudly", "a time-out, which agent and launcher pass on"),
    (
        f"Raise {REPORT} role=observer1 nth=5 side=reply error=KeyError text=lost",
        "failed loudly",
        "the plan's error, passed on through two calls and the launcher",
    ),
    (
        f"Duplicate {ACT} role=observer1 nth=2",
        "needless failure",
        "one action more than rewards: sizes do not match, in the agent's own code",
    ),
    (f"Duplicate {REPORT} role=observer2 nth=1", "needless failure", "one reward more than actions: the same"),
    (
        f"Crash {EPISODE} role=agent nth=1 when=before",
        "failed loudly",
        "observer1 is killed; eof, the launcher ends all",
    ),
    (f"Crash {ACT} role=observer1 nth=3 when=after", "failed loudly", "the agent is killed, and the launcher ends all"),
    (
        f"Crash role=observer2 at=call:{REPORT[5:]}#2@observer2",
        "failed loudly",
        "an observer dies by its own hand, and the launcher ends all",
    ),
    (
        f"Pause role=observer1 at=call:{EPISODE[5:]}#1@agent seconds=6",
        "failed loudly",
        "longer than the agent waits (3 s): a time-out",
    ),
    (f"Order {ACT} roles=observer2,observer1 seconds=2", "unchecked", "the observers do not wait for each other"),
    (
        "Drop message=PYTHON_REMOTE_CALL role=agent times=1",
        "failed loudly",
        "no observer was made: RPC says so when its RRef is passed on",
    ),
    ("Delay message=PYTHON_CALL role=observer1 seconds=0.1", "unchecked", "its ten calls of an episode take 1 of 3 s"),
    ("Drop message=RREF_USER_DELETE role=observer2 times=1", "unknown", "RPC repeats it, and no call tells of it"),
)

FORWARD = "site=_remote_module_non_scriptable:_remote_forward"

REMOTE_MODULE = _of(
    "remote_module",
    (f"Delay {FORWARD} role=master nth=2 side=request seconds=0.3", "unchecked", "a slow call loses nothing"),
    (
        f"Drop {FORWARD} role=master nth=2 side=reply",
        "failed loudly",
        "a time-out ends the master; the worker is ended with the parent",
    ),
    (
        f"Raise {FORWARD} role=master nth=1 side=request error=MemoryError text='out of memory'",
        "failed loudly",
        "the plan's error ends the master",
    ),
    (f"Duplicate {FORWARD} role=master nth=1", "unchecked", "the second output has no part in any loss"),
    (f"Crash {FORWARD} role=master nth=2 when=after", "failed loudly", "the worker is killed, the master ends by eof"),
    ("Crash role=worker at=up@worker", "failed loudly", "the same, by its own hand, before there is a module"),
    (
        f"Crash role=master at=call:{FORWARD[5:]}#2@master",
        "failed loudly",
        "the master dies by its own hand; the parent ends the worker, which waits for it",
    ),
    (f"Pause role=worker at=call:{FORWARD[5:]}#3@master seconds=1", "unchecked", "a pause below the time-out"),
    (
        "Drop message=PYTHON_REMOTE_CALL role=master times=1",
        "failed loudly",
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
    (f"Delay {PUT} role=rank1 nth=3 side=request seconds=0.3", "unchecked", "a slow chunk is awaited"),
    (f"Drop {PUT} role=rank0 nth=2 side=request", "failed loudly", "a time-out ends rank0, and torchrun the others"),
    (
        f"Drop {PROGRESS} role=rank1 nth=1 side=request",
        "unchecked",
        "nobody waits for this call, not even for its error",
    ),
    (
        f"Raise {PUT} role=rank2 nth=1 side=reply error=OSError text='no buffer'",
        "failed loudly",
        "the plan's error ends rank2, and torchrun the others",
    ),
    (f"Duplicate {PUT} role=rank0 nth=1", "wrong", "rank1 adds a chunk in another's place: an AssertionError"),
    (f"Duplicate {PUT} role=rank1 nth=8", "unchecked", "the last chunk again: nobody takes it any more"),
    (f"Crash {PUT} role=rank1 nth=2 when=before", "failed loudly", "rank2 is killed, and torchrun ends the others"),
    (f"Crash role=rank0 at=call:{PUT[5:]}#5@rank0", "failed loudly", "the same, by its own hand"),
    (f"Pause role=rank1 at=call:{PUT[5:]}#4@rank0 seconds=1", "unchecked", "a pause below the time-out"),
    (
        f"Order {PUT} roles=rank1,rank0 seconds=1",
        "not fired",
        "their calls go to different ranks, which each wait in vain: never was there an order",
    ),
    (
        "Drop message=PYTHON_CALL role=rank1 times=1",
        "failed loudly",
        "its first such call is of init_rpc: RPC's own error ends it, and torchrun the others",
    ),
)

UPDATE, EVALUATE = "site=__main__:BatchServer.update", "site=__main__:evaluate"

TWO_PHASES = _of(
    "two_phases",
    (f"Delay {UPDATE} role=train1 nth=2 side=reply seconds=0.3", "unchecked", "a slow answer loses nothing"),
    (f"Delay {EVALUATE} role=eval0 nth=1 side=request seconds=0.2", "unchecked", "the same, in the second world"),
    (
        f"Drop {UPDATE} role=train2 nth=2 side=request",
        "failed loudly",
        "the batch is never full: both trainers and the server have a time-out",
    ),
    (
        f"Raise {EVALUATE} role=eval0 nth=2 side=request error=ValueError text='bad weights'",
        "failed loudly",
        "the plan's error, in the second world",
    ),
    (
        f"Duplicate {UPDATE} role=train1 nth=1",
        "needless failure",
        "nine updates in batches of two: the last waits in vain; its time-out does not come from the callee",
    ),
    (f"Duplicate {EVALUATE} role=eval0 nth=1", "unchecked", "it changes nothing"),
    (
        f"Crash {UPDATE} role=train2 nth=3 when=after",
        "failed loudly",
        "the server is killed, and the launcher ends all",
    ),
    (
        f"Crash {EVALUATE} role=eval0 nth=2 when=before",
        "failed loudly",
        "eval2 is killed, which left the first world well",
    ),
    ("Crash role=train1 at=step:2@train1", "failed loudly", "a trainer dies by its own hand, at a step that it logs"),
    ("Crash role=eval1 at=up@eval1", "failed loudly", "the same, at the start of the second world"),
    ("Crash role=train2 at=shutdown@train2", "failed loudly", "it waits in its shutdown from the start: it dies there"),
    ("Pause role=train0 at=step:2@train2 seconds=1", "unchecked", "a pause below the time-out"),
    (f"Order {UPDATE} roles=train2,train1 nth=2 seconds=2", "unchecked", "the server waits for both anyway"),
    ("Delay message=PYTHON_CALL role=train1 seconds=0.1", "unchecked", "its four updates are late"),
    (
        "Drop message=PYTHON_CALL role=eval0 times=1",
        "failed loudly",
        "its first such call is of the second init_rpc: RPC's own error",
    ),
)

COUNT = "site=__main__:Worker.count_primes"

PRIMES = _of(
    "primes",
    (
        f"Delay {COUNT} role=client nth=2 side=reply seconds=2.5",
        "unchecked",
        "later than the client waits (1.5 s), which asks the other worker",
    ),
    (f"Drop {COUNT} role=client nth=1 side=request", "unchecked", "the other worker is asked"),
    (f"Drop {COUNT} role=client nth=3 side=reply", "unchecked", "the other worker is asked"),
    (f"Raise {COUNT} role=client nth=2 side=request error=OSError text=busy", "unchecked", "the other worker is asked"),
    ("Raise site=__main__:Worker.report every=true side=reply", "unchecked", "each error is caught"),
    (f"Duplicate {COUNT} role=client nth=1", "unchecked", "only a statistic counts it twice"),
    ("Duplicate site=__main__:finish role=client nth=1", "unchecked", "an event that is set twice is set"),
    (
        f"Crash {COUNT} role=client nth=1 when=before",
        "wrong",
        "all results are right and the status is 0, yet worker1 did not return: the plan killed it",
    ),
    ("Crash role=worker2 at=shutdown@worker2", "wrong", "the same, by its own hand, when all work is done"),
    (
        f"Crash role=client at=call:{COUNT[5:]}#2@client",
        "wrong",
        "the client is killed by the plan, and nobody reads its exit code; the workers end by themselves",
    ),
    (
        f"Pause role=worker1 at=call:{COUNT[5:]}#1@client seconds=2",
        "unchecked",
        "longer than the client waits, which asks the other worker",
    ),
    ("Delay message=PYTHON_CALL role=worker1 seconds=0.3", "unchecked", "it only calls where worlds begin and end"),
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
    (f"Delay {MAP} role=master nth=1 side=request seconds=0.3", "unchecked", "a slow call loses nothing"),
    (
        f"Delay {ADD} role=mapper2 nth=1 side=request seconds=5",
        "failed loudly",
        "later than the mapper and the master wait (3 s): a time-out, before the delay is over",
    ),
    (f"Drop {MAP} role=master nth=2 side=request", "failed loudly", "a time-out ends the master, and that the daemons"),
    (f"Drop {ADD} role=mapper1 nth=1 side=reply", "failed loudly", "the same, one call further"),
    (
        f"Drop {RESULT} role=master side=reply",
        "failed loudly",
        "the master catches its time-out, and exits with status 2 while it handles it: from that error",
    ),
    (
        f"Raise {ADD} role=mapper2 nth=2 side=request error=RuntimeError text=full",
        "failed loudly",
        "the plan's error ends the master, through two calls",
    ),
    (
        f"Duplicate {ADD} role=mapper1 nth=1",
        "needless failure",
        "words are counted twice: the master says so, and exits with 1",
    ),
    (f"Duplicate {MAP} role=master nth=3", "needless failure", "the same, one call earlier"),
    (f"Duplicate {RESULT} role=master", "unchecked", "it changes nothing"),
    (
        f"Crash {ADD} role=mapper1 nth=1 when=before",
        "failed loudly",
        "the reducer is killed, the master ends by an error",
    ),
    (
        f"Crash role=master at=call:{RESULT[5:]}#1@master",
        "hung",
        "the plan kills the command itself; its daemons wait in a shutdown without a limit, and nobody waits for them",
    ),
    (
        f"Crash role=reducer at=call:{MAP[5:]}#1@master",
        "failed loudly",
        "the reducer is gone before there is a word to add: the master dies by an error",
    ),
    (f"Pause role=reducer at=call:{RESULT[5:]}#1@master seconds=1", "unchecked", "a pause below the time-out"),
    (f"Order {ADD} roles=mapper2,mapper1 seconds=2", "unchecked", "the master asks both mappers at once"),
    ("Delay message=PYTHON_CALL role=mapper1 seconds=0.2", "unchecked", "its calls are late"),
    (
        "Drop message=PYTHON_CALL role=mapper2 times=1",
        "failed loudly",
        "its first such call is of init_rpc: it ends by RPC's own error, and the master by the mappers' silence",
    ),
)

SEND, ASK = "site=__main__:pay role=client", "site=__main__:balance role=client"

BACKOFF = _of(
    "backoff",
    (f"Delay {SEND} nth=2 side=reply seconds=0.3", "equal", "a slow answer loses nothing"),
    (f"Delay {SEND} nth=2 side=request seconds=1.5", "equal", "later than the limit: it asks again"),
    (f"Drop {SEND} nth=3 side=request", "equal", "it asks again"),
    (f"Drop {SEND} nth=3 side=reply", "equal", "it asks again, and the bank knows the payment by its number"),
    (f"Duplicate {SEND} nth=1", "equal", "the same"),
    (f"Raise {SEND} nth=2 side=flight", "equal", "it asks again"),
    (
        f"Raise {SEND} every=true side=request error=ValueError text='no such account'",
        "failed loudly",
        "it gives up after four attempts, by an error of its own",
    ),
    (f"Drop {ASK} every=true side=request", "failed loudly", "the same, after four time-outs"),
    (f"Crash {SEND} nth=2 when=before", "failed loudly", "the bank is killed, and mp.spawn ends the client"),
    ("Crash role=bank at=shutdown@bank", "failed loudly", "the same; the bank waits in its shutdown from the start"),
    ("Pause role=bank at=call:__main__:pay#2@client seconds=0.5", "equal", "a pause below the limit"),
    ("Delay message=PYTHON_CALL role=client seconds=0.1", "equal", "its calls are late"),
)

ADD_UP = "site=__main__:add role=worker"

RESTARTS = _of(
    "restarts",
    (f"Delay {ADD_UP} nth=2 side=request seconds=0.3", "equal", "a slow call loses nothing"),
    (f"Drop {ADD_UP} nth=3 side=reply", "recovered", "the worker's time-out ends it; the next one begins where it was"),
    (f"Raise {ADD_UP} nth=2 side=request error=ValueError", "recovered", "the plan's error does"),
    (f"Duplicate {ADD_UP} nth=4", "wrong", "the store adds 9 twice, and nobody notices"),
    (f"Crash {ADD_UP} nth=3 when=before", "recovered", "the store is killed; the worker's error ends both"),
    (f"Crash {ADD_UP} nth=3 when=after", "recovered", "the same; what was added is not noted, and is added again"),
    (
        f"Crash {ADD_UP} nth=3 when=before lives=every",
        "recovered",
        "each life adds two squares, and the fourth has no third one",
    ),
    (f"Crash {ADD_UP} nth=1 when=before lives=every", "failed loudly", "no life adds anything: it starts four times"),
    ("Crash role=worker at=up@worker", "recovered", "it dies by its own hand, in its first life only"),
    ("Crash role=worker at=up@worker lives=2", "not fired", "there is one life"),
    ("Pause role=store at=call:__main__:add#2@worker seconds=0.5", "equal", "a pause below the time-out"),
    (
        "Drop message=PYTHON_CALL role=worker times=1",
        "failed loudly",
        "the first such call of each life is of init_rpc: RPC's own error",
    ),
)

RESERVE = "site=__main__:Stock.reserve role=shop"

TAKE_ORDERS = _of(
    "orders",
    (f"Delay {RESERVE} nth=2 side=reply seconds=0.3", "equal", "a slow answer loses nothing"),
    (
        f"Drop {RESERVE} nth=2 side=request",
        "failed loudly",
        "a time-out, logged as its own error; it exits with status 4",
    ),
    (f"Drop {RESERVE} nth=2 side=reply", "failed loudly", "the same"),
    (f"Raise {RESERVE} nth=1 side=request error=ValueError text=closed", "failed loudly", "the plan's error, the same"),
    (f"Duplicate {RESERVE} nth=3", "wrong", "six pieces are reserved twice, and nobody notices"),
    (f"Corrupt {RESERVE} nth=2 side=reply change=nan", "failed loudly", "it finds the NaN; it exits with status 5"),
    (f"Corrupt {RESERVE} nth=1 side=request change=zeros", "wrong", "nothing is sold for the first order"),
    (f"Crash {RESERVE} nth=2 when=before", "failed loudly", "RPC's own error, logged; it exits with status 4"),
    ("Crash role=stock at=step:2@shop", "failed loudly", "the same, at the third order"),
    ("Pause role=stock at=step:1@shop seconds=0.5", "equal", "a pause below the time-out"),
    ("Delay message=PYTHON_REMOTE_CALL role=shop seconds=0.3", "equal", "its only such call is late"),
    (
        "Drop message=PYTHON_REMOTE_CALL role=shop times=1",
        "failed loudly",
        "there is no stock: RPC says so when it is used",
    ),
)

TABLE = (
    *(*PARAMETER_SERVER, *BANDIT, *REMOTE_MODULE, *RING, *TWO_PHASES, *PRIMES, *WORD_COUNT),
    *(*BACKOFF, *RESTARTS, *TAKE_ORDERS),
)
HEALTHY = tuple(
    Expected(program, "seed=0", "equal" if program in CHECKS else "unchecked", "nothing is hurt")
    for program in COMMANDS
)
