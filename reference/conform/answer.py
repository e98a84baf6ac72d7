"""Read what an implementation left in a case's folder: its tensors, and the ``result.json`` that it may write."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from reference.conform.suite import SuiteCase
from reference.conform.tensor_file import Array, Malformed, Tensors, dtype_name, read
from reference.system.files import Unusable
from reference.system.json_objects import read_object
from reference.system.text import one_line, shown


def commitment(array: Array) -> str:
    """Return the SHA-256 of dtype, shape and numbers in row-major order, little-endian; -0.0 counts as 0.0."""
    plain = array + array.dtype.type(0) if array.dtype.kind == "f" else array
    head = f"{dtype_name(array)} {'x'.join(map(str, array.shape))}\n".encode()
    body = np.ascontiguousarray(plain, array.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(head + body).hexdigest()


# The longest result.json in bytes.
LONGEST = 2**20
STATES = ("done", "skipped", "errored")


@dataclass
class Answer:
    """``state``: done, skipped or errored, with a ``reason``. ``problems``: why this is no answer, one line each."""

    state: str = "done"
    reason: str = ""
    tensors: Tensors = field(default_factory=Tensors)
    problems: list[str] = field(default_factory=list)


def read_answer(case: SuiteCase, folder: Path) -> Answer:
    """Read the answer to ``case`` in ``folder``. Raises nothing for what an implementation wrote.

    A file of tensors that is much longer than all that are wanted is not read.
    """
    answer = Answer()
    if os.path.lexists(folder / "result.json"):
        _read_result(case, folder / "result.json", answer)
    if answer.state != "done" or answer.problems:
        return answer
    trace = folder / "trace.safetensors"
    if not os.path.lexists(trace):
        answer.problems.append("there is no trace.safetensors")
        return answer
    try:
        answer.tensors = read(trace, 2 * case.bytes + 2**25)
    except Malformed as error:
        answer.problems.append(str(error))
    return answer


def _read_result(case: SuiteCase, path: Path, answer: Answer) -> None:
    try:
        content = read_object(path, longest=LONGEST)
    except Unusable as error:
        answer.problems.append(f"result.json: {error.strerror}")
        return
    if not set(content) <= {"id", "status", "reason", "implementation"}:
        answer.problems.append(f"result.json: wanted id, status, reason and implementation, got {shown(content)}")
        return
    if content.get("id", case.id) != case.id:
        answer.problems.append(f"result.json: answers case {shown(content['id'])}, wanted {case.id}")
    state, reason = content.get("status", "done"), content.get("reason", "")
    if state not in STATES or not isinstance(reason, str):
        answer.problems.append(f"result.json: status {shown(state)}, wanted {', '.join(STATES)}, and a text as reason")
        return
    if state == "skipped" and not reason.strip():
        answer.problems.append("result.json: skipped without a reason")
    answer.state, answer.reason = state, one_line(reason)
