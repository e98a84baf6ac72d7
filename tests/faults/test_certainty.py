"""Errors that say that a call certainly failed. The texts are torch 2.13.0's; test_calls.py provokes them."""

from __future__ import annotations

import pytest

from faults.tracebacks.certainty import first_line, is_definite, raised_there

THERE = "On WorkerInfo(id=1, name=b):\n"
FROM = "(this error originated at tensorpipe/{}:1)"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"{THERE}ValueError('no')\nTraceback"),
        TypeError(f"{THERE}TypeError('no')"),
        RuntimeError(f"{THERE}RuntimeError('no')"),
        RuntimeError(f'KeyError: "{THERE}KeyError(1)"'),
        RuntimeError("Got the following error when running the callback: ValueError: no"),
        RuntimeError(f"connect: Connection refused {FROM.format('common/socket.cc')}"),
        RuntimeError(f"ECONNREFUSED: connection refused {FROM.format('transport/uv/connection_impl.cc')}"),
        RuntimeError("RPCErr:2:Send attempt failed intentionally for PYTHON_CALL"),
    ],
)
def test_an_error_of_the_callee_or_of_a_call_never_sent_is_definite(error: Exception) -> None:
    assert is_definite(error)


@pytest.mark.parametrize(
    "text",
    [
        "RPCErr:1:RPC ran for more than set timeout (2000 ms) and will now be marked with an error",
        f"eof {FROM.format('transport/shm/connection_impl.cc')}",
        f"EOF: end of file {FROM.format('transport/uv/connection_impl.cc')}",
        f"EPIPE: broken pipe {FROM.format('transport/uv/connection_impl.cc')}",
        f"ECONNRESET: connection reset by peer {FROM.format('transport/uv/connection_impl.cc')}",
        f"pipe closed {FROM.format('core/pipe_impl.cc')}",
        "something that torch says tomorrow",
        "",
    ],
)
def test_a_timeout_or_a_broken_connection_is_indefinite(text: str) -> None:
    assert not is_definite(RuntimeError(text))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError(f"{THERE}ValueError('no')\nTraceback\n  File"), "ValueError: ValueError('no')"),
        (
            RuntimeError("'On WorkerInfo(id=1, name=b):\\nKeyError(\\'no\\')\\nTraceback'"),
            "RuntimeError: KeyError('no')",
        ),
        (RuntimeError("  eof \n more"), "RuntimeError: eof"),
        (RuntimeError("On WorkerInfo(id=1, name=b):"), "RuntimeError: On WorkerInfo(id=1, name=b):"),
        (RuntimeError(""), "RuntimeError: "),
        (RuntimeError("x" * 1000), "RuntimeError: " + "x" * 200),
    ],
)
def test_first_line_has_the_type_and_the_message(error: Exception, line: str) -> None:
    assert first_line(error) == line


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("KeyError: On WorkerInfo(id=0, name=ps):\nKeyError('x')", "KeyError"),
        ("RuntimeError: On WorkerInfo(id=0, name=ps):\nRuntimeError('KeyError: On WorkerInfo(1)')", "RuntimeError"),
        ("OutOfTurn: On WorkerInfo(id=0, name=ps):\nOutOfTurn('Order: nothing')", None),
        ("print: On WorkerInfo(id=0, name=ps)", None),
        ("RPCErr:1:RPC ran for more than set timeout", None),
    ],
)
def test_raised_there_names_the_callees_built_in_exception(error: str, name: str | None) -> None:
    assert raised_there(error) == name
