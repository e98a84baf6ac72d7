"""Subjects for runs and sweeps: a till that pays at a shop, right, or with one defect each."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from faults.run.runs import Subject
from reference.outcome import Outcome, Returned

PAY, TOTAL = f"{__name__}:pay", f"{__name__}:total"
COINS = f"{__name__}:pay_coins"
AMOUNTS = (1, 10, 100)

# Seconds until a till gives up a call.
TIMEOUT = 1.0

_paid: list[int] = []


def pay(amount: int) -> None:
    _paid.append(amount)


def total() -> int:
    return sum(_paid)


def shop() -> None:
    """Serves payments."""


def _pay(amount: int) -> None:
    rpc.rpc_sync("shop", pay, args=(amount,), timeout=TIMEOUT)


def _total() -> int:
    return int(rpc.rpc_sync("shop", total, timeout=TIMEOUT))


def careful() -> int:
    """Ends by any payment that fails."""
    for amount in AMOUNTS:
        _pay(amount)
    return _total()


def strictly_pay(amount: int) -> None:
    assert amount not in _paid, amount
    _paid.append(amount)


def strict() -> int:
    """The shop refuses an amount that comes twice, by an error of its own."""
    for amount in AMOUNTS:
        rpc.rpc_sync("shop", strictly_pay, args=(amount,), timeout=TIMEOUT)
        if amount == 10:
            rpc.rpc_sync("shop", strictly_pay, args=(amount,), timeout=TIMEOUT)
    return _total()


def careless() -> int:
    """Loses a payment that fails, and does not report it."""
    for amount in AMOUNTS:
        with suppress(RuntimeError):
            _pay(amount)
    return _total()


def retrying() -> int:
    """Pays again after a failure, although the first payment may have arrived."""
    for amount in AMOUNTS:
        try:
            _pay(amount)
        except RuntimeError:
            _pay(amount)
    return _total()


def clumsy() -> int:
    """Makes a mistake when a call fails."""
    try:
        return careful()
    except RuntimeError:
        return int(None.grad)  # type: ignore[attr-defined]


def touchy() -> int:
    """Fails if an answer takes as long as a sweep's delay."""
    rpc.rpc_sync("shop", total)  # the first call connects
    for amount in AMOUNTS:
        start = time.monotonic()
        _pay(amount)
        if time.monotonic() - start >= 0.2:
            raise RuntimeError("too slow")
    return _total()


def untidy() -> int:
    """Leaves a process behind, in a session of its own."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return careful()


def forgetful() -> int:
    """Never releases its autograd context."""
    dist_autograd._new_context()  # type: ignore[attr-defined]
    return careful()


def pay_coins(coins: torch.Tensor) -> torch.Tensor:
    _paid.append(int(coins.sum()))
    return coins.sum()


def trusting() -> int:
    """Pays by tensors that nobody checks."""
    for amount in AMOUNTS:
        rpc.rpc_sync("shop", pay_coins, args=(torch.tensor([amount, 0]),), timeout=TIMEOUT)
    return _total()


def judged(outcomes: Mapping[str, Outcome]) -> tuple[str, str] | None:
    """Compare what a till returned with what it should."""
    values = [o.value for name, o in outcomes.items() if name.startswith("till") and isinstance(o, Returned)]
    if not values:
        return None
    return ("equal" if values[0] == sum(AMOUNTS) else "wrong"), f"{values[0]} in the till"


def subject(till: Callable[[], object]) -> Subject:
    return Subject(till.__name__, {"shop": shop, "till": till}, TIMEOUT, judged)
