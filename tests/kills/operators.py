"""Draw bugs that operators make: each replaces one piece of a source file by another, as a typing mistake would.

Left alone: annotations, texts, decorators, what only a type checker executes, and the guard of a script. Not drawn,
because no test can notice them: what compiles to the same code, and `zip` without ``strict=True``, a check of this.
"""

from __future__ import annotations

import ast
import random
import warnings
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice, pairwise
from pathlib import Path
from types import CodeType
from zlib import crc32

from tests.mutants.checkout import write

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.MatMult: "+",
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "reversed": "list"}


@dataclass(frozen=True)
class Drawn:
    """The bytes from ``start`` to ``end`` of ``file`` become ``new``. ``killers``: the tests to run."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str
    operator: str
    killers: tuple[str, ...] = ()
    hangs: bool = True  # a test that hangs has noticed it
    slow: bool = False

    @property
    def name(self) -> str:
        """The same for the same change, as long as nothing before it in the file changes; another for any other."""
        return f"{self.file}:{self.line}:{self.start} {self.operator} {crc32(self.new.encode()):08x}"

    @property
    def change(self) -> str:
        """What becomes what, in one line."""
        return f"{self.operator}: {' '.join(self.old.split())[:80]} -> {' '.join(self.new.split())[:80] or 'nothing'}"

    def plant(self, root: Path) -> None:
        """Plant the bug in the copy of the checkout at ``root``."""
        path = root / self.file
        write(path, self.planted(path.read_text()))

    def planted(self, text: str) -> str:
        """Plant the bug in the text of the whole file."""
        data = text.encode()
        assert data[self.start : self.end].decode() == self.old, f"{self.name}: the file is another one"
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


def drawn(root: Path, files: Sequence[str], count: int, seed: int) -> list[Drawn]:
    """Draw as many bugs from all that the operators can make of these files; each of them is another program."""
    texts = {file: (root / file).read_text() for file in sorted(files)}
    every = [bug for file, text in texts.items() for bug in bugs_of(file, text)]
    random.Random(seed).shuffle(every)
    return list(islice((bug for bug in every if _can_be_noticed(texts[bug.file], bug)), count))


def bugs_of(file: str, text: str) -> list[Drawn]:
    """Return every bug that the operators can make of one file; a few of them may be the same program, or none."""
    return list(_Finder(file, text).found())


def _can_be_noticed(text: str, bug: Drawn) -> bool:
    if b"strict=True" in text.encode()[bug.start - len("strict=") : bug.end]:
        return False
    try:
        return _compiled(bug.planted(text)) != _compiled_once(text)
    except SyntaxError:
        return False


def _compiled(text: str) -> CodeType:
    with warnings.catch_warnings(action="ignore"):  # of comparisons with what the bug has put there
        return _without_places(compile(text, "bug", "exec"))


_compiled_once = cache(_compiled)


def _without_places(code: CodeType) -> CodeType:
    """The same code on one line."""
    inner = tuple(_without_places(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=inner, co_firstlineno=1, co_linetable=b"")


class _Finder:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.tree = file, ast.parse(text)
        self.bytes = text.encode()  # in which `ast` counts columns
        self.begins = list(accumulate((len(line) for line in self.bytes.splitlines(keepends=True)), initial=0))

    def found(self) -> Iterator[Drawn]:
        for node in _executed(self.tree):
            for operator, start, end, new in self._of(node):
                yield Drawn(self.file, bisect(self.begins, start), start, end, self._text(start, end), new, operator)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        begins, ends = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        return self.begins[first - 1] + begins, self.begins[last - 1] + ends

    def _text(self, start: int, end: int) -> str:
        return self.bytes[start:end].decode()

    def _of(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]):
                yield ("comparison", *self._between(left, right), _COMPARISONS[type(op)])
            case ast.BoolOp(op=op, values=values):
                other = "or" if isinstance(op, ast.And) else "and"
                for left, right in pairwise(values):
                    yield ("and/or", *self._between(left, right), other)
                word = " and " if isinstance(op, ast.And) else " or "
                for each in values:
                    rest = (f"({self._text(*self._span(value))})" for value in values if value is not each)
                    yield ("operand", *self._span(node), f"({word.join(rest)})")
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC and not _is_text(left, right):
                yield ("arithmetic", *self._between(left, right), _ARITHMETIC[type(op)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield ("not", self._span(node)[0], self._span(operand)[0], "")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield ("sign", self._span(node)[0], self._span(operand)[0], "")
            case ast.Constant(value=bool(value)):
                yield ("constant", *self._span(node), str(not value))
            case ast.Constant(value=int(value)) | ast.Constant(value=float(value)):
                yield ("constant", *self._span(node), repr(value + 1))
            case ast.Name(id=name, ctx=ast.Load()) if name in _NAMES:
                yield ("name", *self._span(node), _NAMES[name])
            case ast.Call(args=args, keywords=keywords):
                yield from self._arguments(args, keywords)
            case ast.ExceptHandler(type=ast.expr() as kind):
                yield ("except", *self._span(kind), "()")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield ("condition", *self._span(test), f"(not ({self._text(*self._span(test))}))")
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield ("condition", *self._span(test), "True")
            case ast.Return(value=ast.expr() as result) if not _is_none(result):
                yield ("return", *self._span(result), "None")
            case ast.Break() | ast.Continue() | ast.Raise() | ast.Return() | ast.AugAssign() | ast.Delete():
                yield ("statement", *self._span(node), "pass")
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield ("statement", *self._span(node), "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield ("statement", *self._span(node), "pass")

    def _arguments(
        self, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]
    ) -> Iterator[tuple[str, int, int, str]]:
        """Forget an argument that has a name, with the comma before it."""
        every = sorted([*args, *keywords], key=lambda each: self._span(each))
        for before, each in pairwise(every):
            if isinstance(each, ast.keyword) and each.arg is not None:
                yield ("argument", self._span(before)[1], self._span(each)[1], "")
        if len(every) == 1 and keywords and keywords[0].arg is not None:
            yield ("argument", *self._span(keywords[0]), "")

    def _between(self, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """The place of an operator, without the brackets around its operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        text = self._text(start, end)
        return start + len(text) - len(text.lstrip(" )\n")), end - (len(text) - len(text.rstrip(" (\n")))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk over what is executed and means something: no annotation, no text, no guard of a script."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr) or _is_guard(node):
                continue
            yield node
            yield from _executed(node)


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")


def _is_text(*nodes: ast.expr) -> bool:
    return any(isinstance(each, ast.JoinedStr) or isinstance(getattr(each, "value", None), str) for each in nodes)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
