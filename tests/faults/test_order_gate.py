"""OrderGate: calls that wait for those before them. Threads stand for RPC threads; real calls are in test_calls.py."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from faults.inject.call.order_gate import OrderGate, OutOfTurn
from faults.plan import Fault
from tests.support.roles_shop import arrived


def fault(roles: str, seconds: float = 10) -> Fault:
    return Fault(kind="Order", site="shop:pay", roles=tuple(roles), seconds=seconds)


@pytest.mark.parametrize("roles", list(itertools.permutations("abc")), ids="".join)
@pytest.mark.parametrize("arrivals", list(itertools.permutations("abc")), ids="".join)
def test_calls_execute_in_every_order_from_every_arrival(roles: tuple[str, ...], arrivals: tuple[str, ...]) -> None:
    turns, done = OrderGate(), []
    gate = threading.Event()  # no call is done before all have arrived

    def play(role: str) -> None:
        with turns.turn(0, fault("".join(roles)), 1, role):
            gate.wait(10)
            done.append(role)

    with ThreadPoolExecutor(3) as pool:
        futures = []
        for number, role in enumerate(arrivals, 1):
            futures.append(pool.submit(play, role))
            assert arrived(turns, number)
        gate.set()
        for each in futures:
            each.result(10)
    assert done == list(roles)
    assert turns.groups == {}


def test_a_missing_call_is_named() -> None:
    turns = OrderGate()
    for role, late in (("b", "a"), ("c", "a, b")):
        text = f"^Order: nothing from {late} within 0.01 s, wanted before {role}$"
        with pytest.raises(OutOfTurn, match=text), turns.turn(0, fault("abc", 0.01), 1, role):
            pytest.fail("executed out of turn")


def test_a_call_that_raises_lets_the_next_one_go() -> None:
    turns = OrderGate()
    with pytest.raises(ZeroDivisionError), turns.turn(0, fault("ab"), 1, "a"):
        raise ZeroDivisionError
    with turns.turn(0, fault("ab"), 1, "b") as group:
        assert group.done == 1
    assert group.done == 2


def test_a_call_that_another_order_ends_lets_nobody_go() -> None:
    turns = OrderGate()
    with pytest.raises(OutOfTurn), turns.turn(0, fault("ab"), 1, "a"), turns.turn(1, fault("ca", 0.01), 1, "a"):
        pytest.fail("executed out of turn")
    with pytest.raises(OutOfTurn, match="nothing from a"), turns.turn(0, fault("ab", 0.01), 1, "b"):
        pytest.fail("executed out of turn")


def test_occurrences_and_faults_do_not_mix() -> None:
    turns = OrderGate()
    with turns.turn(0, fault("ab"), 1, "a"):
        pass
    for number, nth in ((0, 2), (1, 1)):
        with pytest.raises(OutOfTurn), turns.turn(number, fault("ab", 0.01), nth, "b"):
            pass
    with turns.turn(0, fault("ab", 0.01), 1, "b"):
        pass
