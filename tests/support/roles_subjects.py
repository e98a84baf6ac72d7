"""Subjects for runs and sweeps: a till that pays at a shop, right, or with one defect each."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from faults.run.runs import Subject
from reference.outcome import Outcome, Returned

PAY, TOTAL = f"{__name__}:pay", f"{__name__}:total"
ONCE = f"{__name__}:pay_once"
COINS, CHECKED = f"{__name__}:pay_coins", f"{__name__}:pay_checked"
AMOUNTS = (1, 10, 100)

# Seconds until a till gives up a call.
TIMEOUT = 1.0

_paid: list[int] = []
_kept: list[object] = []


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


_numbers: set[int] = set()


def pay_once(number: int, amount: int) -> None:
    """Pays, unless a request of this number has come before."""
    if number not in _numbers:
        _numbers.add(number)
        _paid.append(amount)


def layered() -> int:
    """Pays again with the same number, and if that fails too, once more with a new one."""
    numbers = count(1)
    for amount in AMOUNTS:
        attempts = [number := next(numbers), number, next(numbers)]
        for attempt in attempts:
            try:
                rpc.rpc_sync("shop", pay_once, args=(attempt, amount), timeout=TIMEOUT)
            except RuntimeError as error:
                if "RPCErr:1:" not in str(error) or attempt == attempts[-1]:
                    raise
            else:
                break
    return _total()


def stubborn() -> int:
    """Waits forever for an answer that does not come."""
    try:
        return careful()
    except RuntimeError:
        threading.Event().wait()
        raise


def clumsy() -> int:
    """Makes a mistake when a call fails."""
    try:
        return careful()
    except RuntimeError:
        return int(None.grad)  # type: ignore[attr-defined]


class ShopClosed(Exception):
    """The error that a till raises for a failed call."""


def telling() -> int:
    """Reports a failed call in its own words."""
    try:
        return careful()
    except RuntimeError as error:
        raise ShopClosed("no sale today") from error


def mortal() -> int:
    """Kills itself when a call fails."""
    try:
        return careful()
    except RuntimeError:
        os.kill(os.getpid(), signal.SIGKILL)
        raise


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


class Receipt:
    """What the shop keeps for a till."""


def hoarding() -> int:
    """Keeps a receipt for each payment that fails, in a global, and goes on without it."""
    for amount in AMOUNTS:
        try:
            _pay(amount)
        except RuntimeError:
            for _ in range(2):
                _kept[:] = [*_kept, rpc.remote("shop", Receipt, timeout=TIMEOUT)]
            _pay(amount)
    return _total()


def pay_coins(coins: torch.Tensor) -> torch.Tensor:
    _paid.append(int(coins.sum()))
    return coins.sum()


def pay_checked(coins: torch.Tensor, amount: int) -> torch.Tensor:
    if int(coins.sum()) != amount:
        raise ValueError(f"the coins are corrupted: {int(coins.sum())}, wanted {amount}")
    return pay_coins(coins)


def trusting() -> int:
    """Pays by tensors that nobody checks."""
    for amount in AMOUNTS:
        rpc.rpc_sync("shop", pay_coins, args=(torch.tensor([amount, 0]),), timeout=TIMEOUT)
    return _total()


def checking() -> int:
    """Ends if the shop finds that the coins are not those that were sent."""
    for amount in AMOUNTS:
        rpc.rpc_sync("shop", pay_checked, args=(torch.tensor([amount, 0]), amount), timeout=TIMEOUT)
    return _total()


def correcting() -> int:
    """Pays again if the shop refuses the coins."""
    for amount in AMOUNTS:
        coins = (torch.tensor([amount, 0]), amount)
        try:
            rpc.rpc_sync("shop", pay_checked, args=coins, timeout=TIMEOUT)
        except ValueError:
            rpc.rpc_sync("shop", pay_checked, args=coins, timeout=TIMEOUT)
    return _total()


def watching() -> int:
    """Checks the answers itself, and logs a wrong one, which it does not need."""
    for amount in AMOUNTS:
        told = rpc.rpc_sync("shop", pay_coins, args=(torch.tensor([amount, 0]),), timeout=TIMEOUT)
        if int(told) != amount:
            logging.getLogger(__name__).warning("the shop's answer is corrupted: %s, wanted %s", int(told), amount)
    return _total()


def judged(outcomes: Mapping[str, Outcome]) -> tuple[str, str] | None:
    """Compare what a till returned with what it should."""
    values = [o.value for name, o in outcomes.items() if name.startswith("till") and isinstance(o, Returned)]
    if not values:
        return None
    return ("equal" if values[0] == sum(AMOUNTS) else "wrong"), f"{values[0]} in the till"


def half() -> int:
    """One of two tills."""
    _pay(1)
    _pay(10)
    return _total()


def two_tills() -> Subject:
    return Subject("two tills", {"shop": shop, "till1": half, "till2": half}, TIMEOUT)


def subject(till: Callable[[], object]) -> Subject:
    return Subject(till.__name__, {"shop": shop, "till": till}, TIMEOUT, judged)
