"""Say in words who holds which RRefs since when, and which autograd contexts are open."""

from __future__ import annotations

from collections.abc import Mapping

from faults.ledger.stock import Entered, Held, Ident, Sent, Stock

# The ids of a group of RRefs that are named.
NAMED = 5
NO_LINE = "a line that was not seen"

_GOT = {"argument": "an argument", "answer": "in an answer", "fetched": "where it fetched it"}


class Names:
    """The names of workers and of the lines where RRefs were made."""

    def __init__(self, stocks: Mapping[str, Stock]) -> None:
        self._roles = {stock.worker: role for role, stock in stocks.items()}
        self._made = {
            (stock.worker, number): made.line
            for stock in stocks.values()
            for made in stock.made
            for number in made.numbers
        }

    def told(self, role: str, held: Held) -> str:
        """Say who holds which RRefs, since when, by which variable, and where they were made."""
        forks = "fork" if len(held.rrefs) == 1 else "forks"
        who = f"held by {role} itself" if held.owner == role else f"{forks} held by {role}"
        what = f"{group(held.rrefs)} of {held.owner}"
        return f"{what}: {who}{self._since(role, held)}; {held.by} holds {it(held)}"

    def _since(self, role: str, held: Held) -> str:
        since = f" since {held.line or NO_LINE}"
        if held.how == "made":
            return f"{since}, where {role} made {it(held)}"
        return f"{since} ({_GOT[held.how]}), {self.made_by(held.rrefs)}"

    def made_by(self, rrefs: tuple[Ident, ...]) -> str:
        """Say which roles made these RRefs, and where."""
        makers = {self._roles.get(worker, f"worker {worker}") for worker, _ in rrefs}
        lines = {self._made.get(rref, "a line that is not known") for rref in rrefs}
        return f"made by {' and '.join(sorted(makers))} at {' and '.join(sorted(lines))}"


def group(rrefs: tuple[Ident, ...]) -> str:
    numbers = [str(number) for _, number in rrefs[:NAMED]]
    if len(rrefs) == 1:
        return f"RRef {numbers[0]}"
    return f"{len(rrefs)} RRefs ({', '.join([*numbers, *(['...'] if len(rrefs) > NAMED else [])])})"


def it(group: Held | Sent) -> str:
    return "it" if len(group.rrefs) == 1 else "them"


def context(role: str, each: Entered) -> str:
    gone = ", and nothing is left that can leave it" if each.abandoned else ""
    return f"autograd context {each.number} of {role}: entered at {each.line or NO_LINE}, not left{gone}"
