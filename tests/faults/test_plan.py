"""Plans: what is accepted, what is refused and by which error, and both written forms."""

from __future__ import annotations

import itertools
import json
import pickle
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.plan import Fault, Plan, PlanError
from faults.plan.fields import FIELDS
from faults.plan.kinds import KINDS, NAMES
from faults.strategies import plans

ROOT = Path(__file__).parents[2]
SITES = {"shop:Till.pay": {"till1": 6, "till2": 6}, "shop.back:look.<locals>.over": {"till2": 1}}
ROLES = ["shop", "till1", "till2"]
printable = st.text(st.characters(codec="ascii", exclude_categories=["C"], exclude_characters="\\"), max_size=200)

# A valid value of each field; a field of several shapes has a value that is valid in each.
GOOD: dict[str, Any] = {
    "site": "shop:Till.pay",
    "message": "PYTHON_CALL",
    "role": "till1",
    "to": "shop",
    "peer": "till2",
    "roles": ("till1", "till2"),
    "at": "step:3@till1",
    "nth": 2,
    "every": True,
    "chance_percent": 12.5,
    "lives": "every",
    "side": "reply",
    "when": "after",
    "change": "nan",
    "how": "term",
    "direction": "out",
    "seconds": 0.5,
    "percent": 10.0,
    "kbit_per_second": 100,
    "latency_ms": 20.0,
    "jitter_ms": 5.0,
    "reorder_percent": 25.0,
    "times": 2,
    "error": "KeyError",
    "text": 'no; such "till\'s" $till',
}
# A value of each field that no shape accepts.
NUMBERLESS = ["1", "", True, False, [1], {}, float("nan"), float("inf"), -1, 0, -0.0, 10**400, 1 + 0j]
NAMELESS = ["", "two words", "a\n", "\ud800", 7, True, b"till1", ["till1"], {}, "x" * 128, "till1@shop"]
BAD: dict[str, list[Any]] = {
    "site": [
        *(*NAMELESS, "shop", "shop:", ":pay", "shop:pay:now", "shop..x:pay", "shop:.pay", "1shop:pay", "shop:pay()"),
        *("a.:b", ".a:b", "a:b.", "a:1b", "a:<b>", "a-b:c", "a:b#1", "a:b@c", "a :b"),
    ],
    "message": ["", "PYTHON_RET", "python_call", 7, True, ["PYTHON_CALL"], "PYTHON_CALL\n"],
    "role": NAMELESS,
    "to": NAMELESS,
    "peer": NAMELESS,
    "roles": [
        *("till1", (), ("till1",), ("till1", "till1"), ("till1", ""), ("till1", 2), {"till1", "till2"}, 7),
        *([["a"]], ["a#1", "b#1"]),
    ],
    "at": [
        *("", "@", "up", "up@", "@ps", "up@p s", "up@ps ", "up@ps\n", "Up@ps", "up:1@ps", "shutdown#1@ps", "down@ps"),
        *("step@ps", "step:@ps", "step:-1@ps", "step:1.0@ps", "step:٣@ps", "step:1@", f"step:{'1' * 5000}@ps"),
        *("call:f#1@ps", "call:m:f@ps", "call:m:f#@ps", "call:m:f#1", "call:m:f#1@ps#2", "call:a-b:c#1@ps"),
        *("step:1@ps@ps", "up@" + "x" * 128, 3, ["up@a"]),
        *("step:0@ps", "step:00@ps", "call:m:f#0@ps", "step:1000000001@ps"),
    ],
    "nth": [*NUMBERLESS, 1.0, 10**9 + 1, "3", "3-1", "0-2", "1-", "-3", "1-2-3", "01-2", "1 - 2", "1-1000000001"],
    "every": [1, 0, "true", "", [], 1.0],
    "chance_percent": [*NUMBERLESS, 100.5],
    "lives": ["", "all", "0", "-1", "1.0", "01", "10000", 1, True, ["every"], {}],
    "side": ["", "Reply", 1, True, ["reply"], {}],
    "when": ["", "During", 1, True, ["after"], {}],
    "change": ["", "Bit", "ones", 1, True, ["bit"], {}],
    "how": ["", "kill", "exit", "exit:", "exit:256", "exit:-1", "exit:01", "SEGV", 1, True, ["term"], {}],
    "direction": ["", "sideways", 1, True, ["in"], {}],
    "seconds": [*NUMBERLESS, 1e6 + 1],
    "percent": [*NUMBERLESS, 100.5],
    "kbit_per_second": [*NUMBERLESS, 0.5, 10**8 + 1],
    "latency_ms": [*NUMBERLESS, 1e5 + 1],
    "jitter_ms": [*NUMBERLESS, 2001],
    "reorder_percent": [*NUMBERLESS, 50.5],
    "times": [*NUMBERLESS, 1.0, 10**6 + 1],
    "error": ["", "Nonsense", "print", "KeyboardInterrupt", "UnicodeDecodeError", "ExceptionGroup", 7, ["KeyError"]],
    "text": ["two\nlines", "\0", "\ud800", "\x1b[0m", "größe", "C:\\new", "x" * 201, 7, True, ["x"], b"x"],
}


SHAPES = {(kind.name, kind.place): kind for kind in KINDS}


def whole(kind: str, place: str) -> dict[str, Any]:
    """The fields that a fault of this shape needs. A `Slow` has a rate and a latency, of which it needs one."""
    chosen = ("kbit_per_second", "latency_ms") if kind == "Slow" else ()
    return {"kind": kind, **{name: GOOD[name] for name in (*SHAPES[kind, place].needs, *chosen)}}


def refused(values: dict[str, Any], *names: str) -> str:
    """Return the line that refuses a fault of these values. It names the fields."""
    with pytest.raises(PlanError) as caught:
        Fault(**values)
    line = str(caught.value)
    assert line.isprintable(), line
    assert len(line) < 600, line
    for name in names:
        assert repr(name) in line, (name, line)
    return line


SHAPE_IDS = [pytest.param(*shape, id="-".join(shape)) for shape in SHAPES]


def test_every_field_is_covered_here() -> None:
    assert set(GOOD) == set(BAD) == set(FIELDS)


@pytest.mark.parametrize(("kind", "place"), SHAPE_IDS)
def test_what_a_shape_needs_is_enough_and_all_of_it_is_needed(kind: str, place: str) -> None:
    values = whole(kind, place)
    assert Fault(**values).place == place
    for name in SHAPES[kind, place].needs:
        line = refused({key: value for key, value in values.items() if key != name}, name)
        several = len([each for each, _ in SHAPES if each == kind]) > 1
        if not several or name not in ("site", "message", "at"):  # without these its place is open, too
            assert repr(name) in line.partition(", got")[0]


@pytest.mark.parametrize(("kind", "place"), SHAPE_IDS)
def test_every_field_that_a_shape_may_have_and_no_other(kind: str, place: str) -> None:
    values = whole(kind, place)
    for name in FIELDS:
        if name in SHAPES[kind, place].fields:
            given = Fault(**{**values, name: GOOD[name]})
            assert given.to_dict()[name] == GOOD[name]
            assert given.place == place
        else:
            refused({**values, name: GOOD[name]}, name)


@pytest.mark.parametrize(("kind", "place"), SHAPE_IDS)
def test_no_field_takes_an_impossible_value(kind: str, place: str) -> None:
    for name in SHAPES[kind, place].fields:
        for value in BAD[name]:
            refused({**whole(kind, place), name: value}, name)


def test_a_fault_has_one_occurrence() -> None:
    for count in (2, 3):
        for chosen in itertools.combinations(("nth", "every", "chance_percent"), count):
            refused({**whole("Duplicate", "call"), **{name: GOOD[name] for name in chosen}}, *chosen)


def test_without_an_occurrence_a_fault_hits_the_first_call() -> None:
    plain = Fault(**whole("Duplicate", "call"))
    assert plain.nth == 1
    assert plain == Fault(**whole("Duplicate", "call"), nth=1)
    assert Fault(**whole("Duplicate", "call"), every=True).nth is None
    assert replace(plain, nth=None, every=True).every
    assert Fault(**whole("Crash", "process")).nth is None


@pytest.mark.parametrize(("nth", "kept", "numbers"), [(3, 3, [3]), ("1-3", "1-3", [1, 2, 3]), ("7-7", 7, [7])])
def test_several_calls_are_a_first_and_a_last(nth: int | str, kept: int | str, numbers: list[int]) -> None:
    fault = Fault(**whole("Duplicate", "call"), nth=nth)
    assert fault.nth == kept
    assert list(fault.numbers or ()) == numbers
    assert Fault.parse(str(fault)) == Fault.from_dict(fault.to_dict()) == fault
    assert Fault(**whole("Duplicate", "call"), every=True).numbers is None


def test_a_role_cannot_be_its_own_peer() -> None:
    refused({**whole("Reset", "network"), "peer": "till1"}, "peer", "role")


def test_numbers_are_kept_in_one_form() -> None:
    whole_number, fraction = (Fault(**{**whole("Pause", "process"), "seconds": each}) for each in (2, 2.0))
    assert whole_number == fraction
    assert Plan((whole_number,)).to_json() == Plan((fraction,)).to_json()
    assert Fault(**{**whole("Pause", "process"), "at": "step:007@shop"}).at == "step:7@shop"


def test_a_plan_holds_nothing_but_faults() -> None:
    fault = Fault(**whole("Duplicate", "call"))
    for wrong in (None, 7, fault, "Duplicate", [None], [fault, "Crash"], {fault: 1}):
        with pytest.raises(PlanError, match=r"^'faults' must be "):
            Plan(wrong)  # type: ignore[arg-type]
    for seed in (None, True, 1.0, "7", -1, 2**63, 10**5000):
        with pytest.raises(PlanError, match=r"^'seed' must be an integer "):
            Plan((), seed)  # type: ignore[arg-type]


def test_lost_messages_of_a_plan_have_one_number_of_times() -> None:
    first = Fault(kind="Drop", message="PYTHON_CALL", times=2)
    with pytest.raises(PlanError, match=r"^'times' must be the same .* got 2 and 3$"):
        Plan((first, Fault(kind="Drop", message="SCRIPT_CALL", times=3)))
    assert Plan((first, Fault(kind="Drop", message="SCRIPT_CALL", times=2)))


@pytest.mark.parametrize(("one", "other"), [(None, "a"), ("a", None), ("a", "a")])
def test_a_message_has_one_delay_for_each_role(one: str | None, other: str | None) -> None:
    first, second = (Fault(kind="Delay", message="PYTHON_CALL", seconds=1, role=role) for role in (one, other))
    assert Plan((first, replace(second, message="SCRIPT_CALL")))
    assert Plan((replace(first, role="c"), replace(second, role="b")))
    with pytest.raises(PlanError, match=r"^'message' PYTHON_CALL: wanted one Delay for each 'role', got two$"):
        Plan((first, second))


def test_a_role_can_be_slow_once() -> None:
    first, second = (Fault(kind="Slow", role="a", latency_ms=latency) for latency in (1, 2))
    assert Plan((first, replace(second, role="b")))
    with pytest.raises(PlanError, match=r"^'role' a: wanted one Slow, got 2$"):
        Plan((first, second))


@settings(max_examples=60)
@given(plans(SITES, ROLES, steps=3, max_faults=4), printable, st.floats(0, 1e6, exclude_min=True))
def test_both_forms_give_the_plan_back(plan: Plan, text: str, seconds: float) -> None:
    late = Fault(kind="Delay", site="shop:pay", side="request", seconds=seconds)
    worded = Fault(kind="Raise", site="shop:pay", side="request", text=text)
    plan = Plan((*plan.faults, late, worded), plan.seed)
    for again in (
        Plan.parse(str(plan)),
        Plan.parse(plan.to_json()),
        Plan.from_json(plan.to_json()),
        Plan.parse("\n".join([f"seed={plan.seed}", *map(str, plan.faults)])),
        pickle.loads(pickle.dumps(plan)),
        Plan(tuple(Fault.parse(str(fault)) for fault in plan.faults), plan.seed),
    ):
        assert again == plan
        assert hash(again) == hash(plan)
        assert str(again) == str(plan)
        assert again.to_json() == plan.to_json()
    assert str(plan).isprintable()
    assert plan.to_json().isprintable()
    assert json.loads(plan.to_json())["faults"][-1]["text"] == text


def test_the_same_bytes_every_time_and_everywhere() -> None:
    """A change of these lines would change every plan that was ever saved or printed."""
    text = "seed=7; Raise site=shop:Till.pay role=till1 nth=2 side=reply error=KeyError text='no till'; Crash {}"
    plan = Plan.parse(text.format("at=up@ps role=ps").replace("'", '"'))
    assert str(plan) == text.format("role=ps at=up@ps")
    assert plan.to_json() == (
        '{"faults": [{"error": "KeyError", "kind": "Raise", "nth": 2, "role": "till1", "side": "reply", '
        '"site": "shop:Till.pay", "text": "no till"}, {"at": "up@ps", "kind": "Crash", "role": "ps"}], "seed": 7}'
    )
    assert Plan.parse("").to_json() == '{"faults": [], "seed": 0}'
    assert str(Plan()) == "seed=0"
    assert Plan.parse(str(Plan())) == Plan.parse(" \n; \n") == Plan()


def test_a_printed_plan_goes_through_a_shell() -> None:
    texts = ['it\'s; "so"', "$(reboot) `x` $HOME", "# no comment", "!x", "*", "~", "", " ", "=,;{}"]
    worded = [Fault(kind="Raise", site="shop:pay", side="reply", text=text) for text in texts]
    plan = Plan((*worded, Fault(**whole("Slow", "network"))), 3)
    program = "import sys; from faults.plan import Plan; print(Plan.parse(sys.argv[1]).to_json())"
    command = shlex.join([sys.executable, "-X", "utf8", "-c", program, str(plan)])
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=True, cwd=ROOT)
    assert done.stdout.decode() == f"{plan.to_json()}\n"


WANTED_AT = (
    "'up@ROLE', 'step:N@ROLE', 'call:SITE#N@ROLE', "
    "'writing:N@ROLE', 'written:N@ROLE', 'valid:N@ROLE' or 'shutdown@ROLE'"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Crash role=ps at=up@ps role=ps", "Crash: 'role' is given twice"),
        ("Crash role ps", "Crash: wanted name=value, got 'role'"),
        ("Crash kind=Pause role=ps at=up@ps", "Crash: the 'kind' is the first word, got another one, 'Pause'"),
        ("Crash role='ps", 'not a plan: "Crash role=\'ps" (No closing quotation)'),
        ("Crash role=ps at=up", f"'at' must be {WANTED_AT}, got 'up'"),
        ("Crash role=ps at=step:00@ps", "'at' counts from 1 to 1000000000, got 'step:00@ps'"),
        ("Crash rolle=ps", f"Crash: unknown field 'rolle', wanted some of {', '.join(FIELDS)}"),
        ("Duplicate site=a:b every=yes", "Duplicate: 'every' must be true, got 'yes'"),
        ("Duplicate site=a:b every=false", "Duplicate: 'every' must be left out or have a value, got false"),
        ("seed=1 Crash role=ps at=up@ps", "a plan: wanted name=value, got 'Crash'"),
        ("role=ps", "a plan begins with 'seed' or with a fault's kind, got 'role'"),
        ("Crash role=ps at=up@ps; seed=1", f"unknown 'kind' 'seed=1', wanted one of {', '.join(NAMES)}"),
        ("[]", "a plan must be a JSON object, got '[]'"),
        ('{"seeds": 1}', "unknown field 'seeds' of a plan, wanted 'seed' and 'faults'"),
        ('{"seed": null}', "'seed' must be an integer from 0 to 2**63 - 1, got None"),
        ('{"faults": null}', "'faults' must be a list, got None"),
        ('{"faults": ["Crash"]}', "a fault is an object with a 'kind', got 'Crash'"),
        ('{"faults": [{"role": "ps"}]}', "a fault is an object with a 'kind', got {'role': 'ps'}"),
        ('{"faults": [{"kind": ["Delay"]}]}', f"unknown 'kind' ['Delay'], wanted one of {', '.join(NAMES)}"),
        (
            '{"faults": [{"kind": "Reset", "role": "ps", "peer": null}]}',
            "Reset: 'peer' must be left out or have a value, got null",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_wrong_texts_and_json_are_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(PlanError) as caught:
        (Plan.from_json if text[0] in "{[" else Plan.parse)(text)
    assert str(caught.value) == line
