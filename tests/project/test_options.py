"""Every option of a command's help stands in docs/commands.md, in the row of that command, and no other does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import fields
from io import StringIO
from pathlib import Path

import pytest

import faults.cli.main
import reference.cli.main
from faults.cli.options import COMMANDS, WITH_TARGETS
from faults.script.script import DEADLINE
from reference import TUTORIALS, load
from reference.cli.main import COMMANDS as OF_REFERENCE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "commands.md").read_text()
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
# Each row of the page's table: the command as the row names it, and its options.
ROWS = {
    command: set(OPTION.findall(options))
    for command, options in re.findall(r"^\| `((?:faults|reference) [^`]*)` \| (.*) \|$", PAGE, re.MULTILINE)
}
# What the page names besides: the words that every command takes, and an option of torchrun.
OTHERS = {"--help", "--script", "--nproc-per-node"}


def help_of(words: Sequence[str]) -> str:
    """Return what ``--help`` prints. It comes before `--script`, after which all words are the program's."""
    said = StringIO()
    place = words.index("--script") if "--script" in words else len(words)
    arguments = [*words[1:place], "--help", *words[place:]]
    with redirect_stdout(said), suppress(SystemExit):
        {"faults": faults.cli.main.main, "reference": reference.cli.main.main}[words[0]](arguments)
    return said.getvalue()


def options_of(words: Sequence[str]) -> set[str]:
    """Return the options that a command's help lists, without the fields of a tutorial's case and `--help` itself."""
    _, _, listed = help_of(words).partition("\noptions:\n")
    found = {
        option for line in re.findall(r"^  (-.*?)(?:  |$)", listed, re.MULTILINE) for option in OPTION.findall(line)
    }
    assert "--help" in found, words
    of_case = fields(load(words[-1]).Case) if words[-1] in TUTORIALS else ()
    return found - {"--help"} - {f"--{no}{item.name.replace('_', '-')}" for item in of_case for no in ("", "no-")}


def row_of(words: Sequence[str]) -> str:
    """Return the row of a command: its own, or the one for all tutorials."""
    own = " ".join(words)
    return own if own in ROWS else " ".join("NAME" if word in TUTORIALS else word for word in words)


# `conform` is several commands, which its own help names.
CONFORM = re.findall(r"python -m reference conform (\w+)", help_of(["reference", "conform"]))
LINES: list[tuple[str, ...]] = [
    *(("faults", command, name) for command in WITH_TARGETS for name in TUTORIALS),
    *(("faults", command, "--script") for command in WITH_TARGETS),
    *(("faults", command) for command in COMMANDS if command not in WITH_TARGETS),
    *(("reference", "run", name) for name in TUTORIALS),
    *(("reference", command) for command in OF_REFERENCE if command not in ("run", "conform")),
    *(("reference", "conform", command) for command in CONFORM),
]


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_commands_row_has_the_options_of_its_help(words: tuple[str, ...]) -> None:
    assert ROWS.get(row_of(words)) == options_of(words)


def test_every_row_is_a_command() -> None:
    assert set(ROWS) == {row_of(words) for words in LINES}


def test_the_page_tells_after_how_long_a_script_is_ended() -> None:
    assert f"ends the command, and all that it has started: after {DEADLINE:g} s, or later" in PAGE


def test_the_page_names_no_other_option() -> None:
    """Of its text and its examples: an option of some command, or a field of some tutorial's case."""
    of_cases = {f"--{item.name.replace('_', '-')}" for name in TUTORIALS for item in fields(load(name).Case)}
    assert set(OPTION.findall(PAGE)) - set().union(*ROWS.values()) - of_cases - OTHERS == set()
