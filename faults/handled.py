"""Whether a program handles an error, or only does something while the error passes: `sys.exc_info` shows both."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence


def is_handled(error: BaseException) -> bool | None:
    """Whether an `except` block is executed for it now, by the source of the frame that it has reached; False: a
    `finally` block. None: the source does not tell, as in a `with` statement, or where there is none."""
    trace = error.__traceback__
    if trace is None:
        return None
    raised, now = trace.tb_lineno, trace.tb_frame.f_lineno
    source = linecache.getlines(trace.tb_frame.f_code.co_filename, trace.tb_frame.f_globals)
    try:
        nodes = ast.walk(ast.parse("".join(source)))
    except (SyntaxError, ValueError):
        return None
    for each in nodes:
        if isinstance(each, ast.Try | ast.TryStar):
            if _within(each.body, raised) and _within(each.handlers, now):
                return True
            if _within([*each.body, *each.handlers, *each.orelse], raised) and _within(each.finalbody, now):
                return False
    return None


def _within(nodes: Sequence[ast.stmt | ast.ExceptHandler], line: int | None) -> bool:
    return line is not None and any(each.lineno <= line <= (each.end_lineno or 0) for each in nodes)
