"""Read the options of ``sweep``, and select the cells that they name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from zlib import crc32

from faults.cli.options import DIR, EXPECT, Option, seconds
from faults.cli.report_files import REPORTS
from faults.run.cells import CORRUPTIONS, INJECTIONS, ORDER, Cell, Pair, Unhurt
from reference.cli.options import BadInput

_Named = TypeVar("_Named", Cell, Pair)


def kinds(text: str) -> list[str]:
    """Convert ``--kinds``: names from the table of verdicts, or the first words of such names (argparse type)."""
    known_kinds = dict.fromkeys(each for name in (*INJECTIONS, *CORRUPTIONS, ORDER) for each in (name, name.split()[0]))
    chosen = [kind.strip() for kind in text.split(",")]
    for kind in chosen:
        if kind not in known_kinds:
            raise argparse.ArgumentTypeError(f"unknown kind {kind!r}, wanted some of {', '.join(known_kinds)}")
    return chosen


def part(text: str) -> tuple[int, int]:
    """Convert ``--part``: ``I/N``, with I from 1 to N (argparse type)."""
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"wanted I/N with I from 1 to N, such as 1/4, got {text!r}")
    return number, count


OF_SWEEPS: tuple[Option, ...] = (
    ("--budget", {"type": seconds, "metavar": "X", "help": "seconds after which no run begins (default: no limit)"}),
    (
        "--sites",
        {
            "metavar": "TEXT",
            "help": "only call sites that contain this text, or that match it if it has *, ? or [ (default: all)",
        },
    ),
    (
        "--kinds",
        {
            "type": kinds,
            "metavar": "KIND,...",
            "help": "only these kinds, by their names in the table, such as 'Delay request', or by the first words of "
            "the names (default: all but 'Corrupt', which needs tensors, and a program that checks its data)",
        },
    ),
    (
        "--part",
        {
            "type": part,
            "metavar": "I/N",
            "help": "only part I of N: each cell is in one part, the same on every machine; with --pairs each pair, "
            "while every part runs all single cells (default: all)",
        },
    ),
    (
        "--pairs",
        {
            "action": "store_true",
            "help": "afterwards hurt two calls at once, the most telling pairs first (default: one at a time)",
        },
    ),
    DIR,
    EXPECT,
    *REPORTS,
)


def chosen(every: Sequence[Cell], options: Any) -> list[Cell]:
    """Select cells by ``--sites``, ``--kinds`` and ``--part``.

    Raises:
        BadInput: no cell is selected by the first two, or none of a given kind. A part may be empty.
    """
    at_sites = [cell for cell in every if _is_at(cell.site, options.sites)]
    if options.kinds is None:
        missing = [] if at_sites else ["any kind"]
    else:
        missing = [kind for kind in options.kinds if not any(_is(cell, kind) for cell in at_sites)]
    if missing:
        where = "" if options.sites is None else f" with --sites {options.sites}"
        raise BadInput(f"no cell of {', '.join(missing)}{where}: nothing to sweep, see `list`")
    found = [cell for cell in at_sites if options.kinds is None or any(_is(cell, kind) for kind in options.kinds)]
    return found if options.pairs else in_part(found, options)


def wanted(cell: Cell, options: Any) -> bool:
    """Whether ``--sites`` and ``--kinds`` allow this cell, which may be of a call that only a retry makes."""
    kinds = INJECTIONS if options.kinds is None else options.kinds
    return _is_at(cell.site, options.sites) and any(_is(cell, kind) for kind in kinds)


def in_part(every: Sequence[_Named], options: Any) -> list[_Named]:
    """Select cells or pairs by ``--part``. Their names alone decide, so that none is left out where calls differ."""
    if options.part is None:
        return list(every)
    number, count = options.part
    return [each for each in every if crc32(each.name.encode()) % count == number - 1]


def asked(every: Sequence[Unhurt], options: Any) -> list[Unhurt]:
    """Select what is not hurt by ``--sites`` and ``--kinds``."""
    kinds = options.kinds
    at_sites = [each for each in every if _is_at(each.site, options.sites)]
    return [each for each in at_sites if kinds is None or each.injection == "all" or each.injection in kinds]


def _is_at(site: str, text: str | None) -> bool:
    if text is None:
        return True
    return fnmatchcase(site, text) if any(sign in text for sign in "*?[") else text in site


def _is(cell: Cell, kind: str) -> bool:
    return kind in (cell.injection, cell.injection.split()[0])
