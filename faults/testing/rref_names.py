"""Trace the RRefs and autograd contexts of a role, to name the holders of those that leak."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch.distributed.rpc import api

from faults.judge import holdings
from faults.ledger.stock import Stock, from_events, to_events
from faults.tracing import RELEASE
from faults.tracing.tracer import Tracer


def start(folder: str | None, role: str) -> None:
    """Trace this role. To be used as a ``before``. ``folder``: where the role writes what it holds when all roles have
    ended their work; None: nowhere."""
    Tracer.start()
    if folder is not None:
        setattr(api, RELEASE, partial(_write, getattr(api, RELEASE), _file(folder, role)))


def stock(since: int) -> Stock | None:
    """Return what this role got since this event and holds; None if it does not trace."""
    return None if Tracer.current is None else Tracer.current.stock(since)


def named(stocks: Mapping[str, Stock | None], kinds: Collection[str]) -> list[tuple[str, str]]:
    """Return kind and text of everything of these kinds that the roles hold."""
    known = {role: each for role, each in stocks.items() if each is not None}
    return [each for each in map(_of_kind, holdings.everything(known)) if each[0] in kinds]


def at_end(folder: str, roles: Collection[str]) -> list[tuple[str, str]]:
    """Return kind and text of what leaked in a world whose roles have all returned."""
    files = {role: _file(folder, role) for role in roles}
    stocks = {role: from_events(role, json.loads(place.read_text())) for role, place in files.items() if place.exists()}
    every = len(stocks) == len(files) and holdings.are_settled(stocks)
    return list(map(_of_kind, holdings.leaks(stocks, ended=True, every=every)))


def _of_kind(text: str) -> tuple[str, str]:
    return ("contexts" if text.startswith("autograd context") else "rrefs"), text


def _write(original: Callable[..., None], place: Path, *arguments: Any) -> None:
    assert Tracer.current is not None
    Tracer.current.stock_at_end(lambda stock: place.write_text(json.dumps(list(to_events(stock)))))
    original(*arguments)


def _file(folder: str, role: str) -> Path:
    return Path(folder) / f"{role}.held"
