"""Share an idle world between the tests of a module: replace it if it lost a role, and check its leaks after each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.testing.active_plan import merge_launch_arguments
from faults.testing.rref_leaks import Kept, start_names
from reference.outcome import WorldError
from reference.world.launcher import launch
from reference.world.world import World

# The deadline of the world, which lasts as long as the tests of its module (seconds).
DEADLINE = 3600.0


class Idle:
    """A world of idle roles with all attributes of `World`. The world itself is replaced when one of its roles is
    lost. ``trace``: the roles trace their RRefs and autograd contexts."""

    def __init__(self, roles: Sequence[str], folder: Callable[[], Path], *, trace: bool, **arguments: Any) -> None:
        """Launch the world. Raises WorldError: ``roles`` have functions, which idle roles do not play."""
        if isinstance(roles, Mapping):
            raise WorldError("an idle world's roles play nothing: wanted their names, got functions, too")
        self.roles, self._trace = roles, trace
        if trace:
            arguments = merge_launch_arguments(arguments, {"before": start_names})
        self._launch = partial(launch, roles, **{"deadline": DEADLINE, **arguments})
        self._folder = folder
        self._spoilt = False
        self.world: World = self._launch(folder=folder())
        self._kept = Kept(self.world, self._trace)
        self._logged: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def begin(self) -> None:
        """Before a test, replace a world that lost a role, and remember what its roles keep and have logged."""
        if self._spoilt or not self._kept.begin():
            self.world.close()
            self.world, self._spoilt = self._launch(folder=self._folder()), False
            self._kept = Kept(self.world, self._trace)
            self._kept.begin()
        self._logged = {role: path.stat().st_size for role, path in self._logs().items() if path.exists()}

    def left(self, besides: Collection[str] = ()) -> list[tuple[str, str]]:
        """After a test, return `Kept.left`. A world that keeps something or lost a role is replaced before the next
        test."""
        left = self._kept.left(besides)
        self._spoilt = left is None or bool(left)
        return left or []

    def logs(self) -> dict[str, str]:
        """Return what each role has logged since `begin`."""
        content = {role: path.read_bytes() for role, path in self._logs().items() if path.exists()}
        return {role: text[self._logged.get(role, 0) :].decode(errors="replace") for role, text in content.items()}

    def _logs(self) -> dict[str, Path]:
        return {role: self.world.folder / f"{role}.log" for role in self.roles}
