"""The list of all mutants, as ``bugs/*.diff`` have it: a file for each folder of sources.

A bug is a paragraph below its source file::

    === faults/judge/rules.py

    errors-are-anybodys: a failure names no role
    -        return f"{role} raised {error}"
    +        return f"raised {error}"
    tests/judge/test_rules.py::test_a_failure_names_its_role

It consists of a name, with ``(hangs)``, or with ``(waits)`` if it is slow alone, as `Mutant` says; the mistake that it
models; whole lines as in a diff, of which those without ``+`` stand in the file once; and its killers. After ``@ FILE``
come the lines of another place of the same bug.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutant import Mutant

_FILE = re.compile(r"=== (\S+)")
_HEAD = re.compile(r"(?P<name>\S+?)(?: \((?P<mark>hangs|waits)\))?: (?P<models>.+)")


def read(text: str) -> Iterator[Mutant]:
    """Yield the mutants of a text. Raises ValueError with the paragraph that is none."""
    file = ""
    for paragraph in text.split("\n\n"):
        head, *lines = paragraph.strip("\n").split("\n")
        if found := _FILE.fullmatch(head):
            file = found[1]
        elif (found := _HEAD.fullmatch(head)) and file:
            yield _mutant(found, file, lines)
        else:
            raise ValueError(f"got {head!r}, wanted '=== FILE' or 'NAME: MISTAKE'")


def _mutant(head: re.Match[str], file: str, lines: list[str]) -> Mutant:
    places, killers = [[file, "", ""]], list[str]()
    for line in lines:
        mark, rest = line[:1], line[1:]
        if mark == "@":
            places.append([rest.strip(), "", ""])
        elif mark in ("-", "+", " "):
            if mark != "+":
                places[-1][1] += f"{rest}\n"
            if mark != "-":
                places[-1][2] += f"{rest}\n"
        else:
            killers.append(line)
    whole = tuple((place, old, new) for place, old, new in places)
    return Mutant(head["name"], whole, tuple(killers), head["models"], head["mark"] == "hangs", bool(head["mark"]))


MUTANTS: tuple[Mutant, ...] = tuple(
    mutant for path in sorted(Path(__file__).parent.glob("bugs/*.diff")) for mutant in read(path.read_text())
)
