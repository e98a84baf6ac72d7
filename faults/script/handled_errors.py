"""Tell whether a program handles an error, or only runs a `finally` block: `sys.exc_info` shows both alike."""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator, Sequence
from types import FrameType


def is_handled(error: BaseException) -> bool | None:
    """Whether an `except` block is being executed for the error, by the source of the frame that it has reached.

    False: a `finally` block is. None: the source does not tell, as in a `with` statement, or there is no source.
    """
    trace = error.__traceback__
    if trace is None:
        return None
    raised, now = trace.tb_lineno, trace.tb_frame.f_lineno
    source = linecache.getlines(trace.tb_frame.f_code.co_filename, trace.tb_frame.f_globals)
    try:
        nodes = ast.walk(ast.parse("".join(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for each in nodes:
        if isinstance(each, ast.Try | ast.TryStar):
            if _within(each.body, raised) and _within(each.handlers, now):
                return None if _is_raised_again(each.handlers, now) else True
            if _within([*each.body, *each.handlers, *each.orelse], raised) and _within(each.finalbody, now):
                return False
    return None


def was_caught(error: BaseException) -> bool:
    """Whether a frame that the error passed through has returned normally. To be called when no frame of the program
    runs any more. The traceback alone does not tell: Python 3.11 lists a frame only if a block handles the error."""
    return any(dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN_") for frame in _met(error))


def _met(error: BaseException) -> Iterator[FrameType]:
    frame = error.__traceback__.tb_frame if error.__traceback__ else None
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_raised_again(handlers: Sequence[ast.ExceptHandler], now: int | None) -> bool:
    """Whether a bare ``raise``, which leaves no line in the traceback, may have led to this line."""
    for each in (node for handler in handlers for node in ast.walk(handler)):
        ends = isinstance(each, ast.Try | ast.TryStar) and _within(each.finalbody, now)
        ends |= isinstance(each, ast.With | ast.AsyncWith) and each.lineno == now
        if ends and any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(each)):
            return True
    return False


def _within(nodes: Sequence[ast.stmt | ast.ExceptHandler], line: int | None) -> bool:
    return line is not None and any(each.lineno <= line <= (each.end_lineno or 0) for each in nodes)
