"""Answers that may be futures: tell them, make them, and make them fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import torch
from torch.futures import Future


def failing(result: Any, error: Exception) -> tuple[Any, Exception | None]:
    """Replace the answer by the error: at once, or if the answer is a future, when that completes."""

    def fail(_: object) -> NoReturn:
        raise error

    return (result.then(fail), None) if is_future(result) else (None, error)


def unless_failed(done: Any, action: Callable[[Any], None]) -> None:
    """Run the action on the value of a completed future, unless that holds an error."""
    with suppress(Exception):  # the function's own error, which its caller gets
        action(done.value())


def is_future(value: object) -> bool:
    """Whether it is a future. `then` returns one of the public class's base class only."""
    return isinstance(value, torch._C.Future)


def new_future() -> Future[Any]:
    """Make a future that can hold tensors of every device in use here."""
    count = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    return Future(devices=[torch.device("cuda", index) for index in range(count)])


def completed(value: Any) -> Future[Any]:
    """Return a future that has its value already."""
    future = new_future()
    future.set_result(value)
    return future
