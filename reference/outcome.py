"""Every way a role can end has its own type: returned, raised, killed, exited, overdue."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Returned:
    """The role's function returned, and so did the shutdown."""

    value: object = None

    def __str__(self) -> str:
        return "returned"


@dataclass(frozen=True)
class Raised:
    """The role's function, its start or its shutdown raised an exception."""

    type: str
    message: str
    traceback: str = ""
    # The names of the error's class, and of those from which it derives.
    types: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        # The first line of an error that came over RPC says only from which role.
        telling = lines[: 2 if lines and "On WorkerInfo(" in lines[0] else 1]
        return f"raised {self.type}: {' '.join(telling)}"


@dataclass(frozen=True)
class Killed:
    """A signal ended the process.

    ``why`` is set if the launcher sent it because another role was lost, in a world that may be started again.
    """

    signal: int
    why: str = ""

    def __str__(self) -> str:
        try:
            name = signals.Signals(self.signal).name
        except ValueError:
            name = f"signal {self.signal}"
        return f"was killed by {name}{self.why and f', because {self.why}'}"


@dataclass(frozen=True)
class Exited:
    """The process ended by itself without returning: ``sys.exit`` or ``os._exit``.

    ``why`` is set if the process ended before its role began.
    """

    code: int
    why: str = ""

    def __str__(self) -> str:
        return f"exited with status {self.code}{self.why and f' {self.why}'}"


@dataclass(frozen=True)
class Overdue:
    """The role missed its deadline and was ended.

    ``stacks`` has every thread's Python stack. ``why`` is set if the role was given up before its deadline.
    """

    stacks: str
    why: str = ""

    def __str__(self) -> str:
        return self.why or "was overdue"


#: How a role ended.
Outcome = Returned | Raised | Killed | Exited | Overdue


def is_ended_with_another(outcome: Outcome | None) -> bool:
    """Whether the launcher ended the role because another one was lost."""
    return isinstance(outcome, Killed) and outcome.why != ""


class RoleFailed(RuntimeError):
    """Work given to one role failed. ``outcome`` says how; ``log`` is the end of what the role has written.

    The text has that, too, if nothing else tells why the role ended: it was killed, or exited.
    """

    def __init__(self, role: str, outcome: Outcome, log: str = "") -> None:
        self.role = role
        self.outcome = outcome
        self.log = end_of(log)
        shown = self.log if isinstance(outcome, Killed | Exited) else ""
        super().__init__(f"{role} {outcome}" + (shown and f"\n{shown}"))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.role, self.outcome, self.log)


def end_of(log: str) -> str:
    """Return the last 50 lines of a log, at most 5,000 characters.

    A crash report has some 25 lines with 2,000, and what C++ has said of its cause stands before it.
    """
    return "\n".join(log.splitlines()[-50:])[-5000:].rstrip()


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, each cause, and each error during which one was raised, once: an error may be its own cause."""
    left, seen = list[BaseException | None]([error]), set[int]()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            left += (each.__cause__, each.__context__)
            yield each


class WorldError(RuntimeError):
    """The world cannot start, or was used after its end."""


class PeerLost(RuntimeError):
    """A role only had to shut down together with its peers, and one of them is gone."""
