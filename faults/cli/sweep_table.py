"""Print the report of a sweep: a line for each run, the verdict first, then a table of sites and kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faults.judge.facts import player
from faults.judge.rules import LOUD
from faults.ledger.record import COMMAND
from faults.run.sweep import VARIANTS
from reference.system.text import printable

# The width of all lines, of a run's kind and call, and the most and the least of a site in the table.
WIDTH, CALL, SITE, LEAST = 100, 28, 30, 16
# What stands for a verdict in the table; for a verdict that did not pass, its beginning does.
SIGNS = {"equal": "=", "recovered": "r", "unchecked": "~", LOUD: "!"}
# The width of a kind's column, with the blank after it.
_KIND = 6

# A run as a report tells it, and one of the calls that it hurts.
Told = Mapping[str, Any]


def lines_of(report: Told) -> Iterator[str]:
    """Yield the lines, none longer than `WIDTH`. ``report``: that of `faults.cli.reports.of_sweep`."""
    alone, both = ([each for each in report["runs"] if name in each] for name in ("cell", "pair"))
    yield _cut(f"{report['program']}: {_runs(alone, '1 fault')}", WIDTH)
    yield from _by_site(alone)
    if both:
        yield _cut(f"{report['program']}: {_runs(both, '2 faults')}", WIDTH)
        yield from map(_pair, both)
    yield from _unhurt(report["not_hurt"])
    yield from _table(alone)
    if missing := report.get("missing"):
        yield _cut(f"missing parts, of which nothing is known: {', '.join(missing)}", WIDTH)
    if report["not_run"]:
        yield f"{report['not_run']} more were not run: nothing is known of them"
    yield f"{'alone: ' * bool(both)}{_counts(alone)}"
    if both:
        yield f"in pairs: {_counts(both)}"


def _runs(runs: Sequence[Told], faults: str) -> str:
    return f"1 run under {faults}" if len(runs) == 1 else f"{len(runs)} runs, each under {faults}"


def _by_site(runs: Sequence[Told]) -> Iterator[str]:
    """Yield the lines of single runs, each site's together: cells are run in another order."""
    for site in dict.fromkeys(each["cell"]["site"] for each in runs):
        yield _cut(site, WIDTH)
        for each in runs:
            if each["cell"]["site"] == site:
                yield _line(each, f"{each['cell']['kind']} {each['cell']['call']}", CALL)


def _line(run: Told, what: str, width: int) -> str:
    """``failed loudly      1.1 s  Drop reply till#2             RuntimeError: ...``"""
    head = f"{run['verdict']:<16} {run['seconds']:5.1f} s  {_cut(what, width):<{width}}"
    return _cut(f"{head}  {_seen(run)}".rstrip(), WIDTH)


def _pair(run: Told) -> str:
    cells = [f"{cell['kind']} of {short(cell['site'])} by {cell['call']}" for cell in run["pair"]]
    return _line(run, " + ".join(cells), WIDTH)


def _seen(run: Told) -> str:
    """What the line has room for: the rule that failed first, or else how the last of the roles ended that did not
    return, or the command."""
    failed = [check["text"] for check in run["checks"] if check["holds"] is not True]
    ends = {role: text for role, text in run["ends"].items() if text != "returned"}
    of_roles = [f"{role} {text}" for role, text in ends.items() if role != COMMAND]
    seen = [*failed[:1], *of_roles[-1:], *(f"{player(role)} {text}" for role, text in ends.items()), ""]
    return " ".join(seen[0].split())


def short(site: str) -> str:
    """A site without its module."""
    return site.rpartition(":")[2]


def _cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _unhurt(unhurt: Sequence[Told]) -> Iterator[str]:
    """Yield one line for all that was not hurt for the same reason."""
    reasons: dict[str, list[str]] = {}
    for each in unhurt:
        what = short(each["site"]) if each["kind"] == "all" else f"{each['kind']} of {short(each['site'])}"
        reasons.setdefault(each["reason"], []).append(what)
    for reason, whats in reasons.items():
        yield _cut(f"not hurt ({reason}): {', '.join(whats)}", WIDTH)


def kinds_of(runs: Sequence[Told]) -> list[str]:
    """Return the kinds that single runs have, in their usual order. Another version may have others."""
    found = {run["cell"]["kind"] for run in runs}
    return [*filter(found.__contains__, VARIANTS), *sorted(found - VARIANTS.keys())]


def _table(runs: Sequence[Told]) -> Iterator[str]:
    """Yield a row for each site, with the verdicts of its first and last call by kind."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        found.setdefault((run["cell"]["site"], run["cell"]["kind"]), []).append(sign(run["verdict"]))
    if not (kinds := kinds_of(runs)):
        return
    yield ""
    width = max(LEAST, min(SITE, WIDTH - 1 - _KIND * len(kinds)))
    yield _row("", [kind.partition(" ")[0] for kind in kinds], width)
    yield _row("site", [kind.partition(" ")[2] for kind in kinds], width)
    for site in dict.fromkeys(site for site, _ in found):
        yield _row(short(site), [" ".join(found.get((site, kind), ())) for kind in kinds], width)
    meant = dict.fromkeys(f"{sign(run['verdict'])} {run['verdict']}" for run in runs)
    yield f"first and last call: {', '.join(meant)}"


def _row(site: str, columns: Sequence[str], width: int) -> str:
    cells = "".join(f"{each[: _KIND - 1]:<{_KIND}}" for each in columns)
    return _cut(f"{_cut(site, width):<{width}} {cells}".rstrip(), WIDTH)


def sign(verdict: str) -> str:
    """What stands for a verdict in a narrow column."""
    return SIGNS.get(verdict, verdict[:2].upper())


def _counts(runs: Sequence[Told]) -> str:
    counts = Counter(run["verdict"] for run in runs)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
