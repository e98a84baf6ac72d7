"""Let other tools know moments of a role that they cannot know by replacing a function of torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# Called with (graceful, timeout) when `reference.world.shutdown` begins, in its thread.
of_shutdown: list[Callable[[bool, float], object]] = []
# Called when a role saves the checkpoint of a step, with the step and one of these words: "writing", its part is
# written, but has no name yet; "written", its part is whole; "valid", the parts of all roles are.
of_checkpoint: list[Callable[[str, int], object]] = []


def tell(listeners: Sequence[Callable[..., object]], /, *about: object, **named: object) -> None:
    for listener in list(listeners):
        listener(*about, **named)
