"""Files of expected verdicts: what they must look like, and that what is written is read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference.conform.judge import BadExpectations, Expectation, as_toml, read_expectations

GOOD = 'cases = "rnn-*"\nverdict = "skipped"\nreason = "later"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[expect]\n", "Expected"),
        ("x = 1\n", "wanted entries"),
        ("[expect]\nx = 1\n", "wanted entries"),
        ('[[expect]]\ncases = "a"\n', "wanted cases, verdict, reason"),
        (f"[[expect]]\n{GOOD}more = 1\n", "wanted cases, verdict, reason"),
        (f"[[expect]]\n{GOOD}link = 1\n", "link must be a text"),
        (f"[[expect]]\n{GOOD}expires = 2027-01-01\n", r"wanted cases, .* link, got \['cases', 'expires', 'reason'"),
        (f"[[expect]]\n{GOOD.replace('later', '')}", "reason must be a text"),
        (f"[[expect]]\n{GOOD.replace('skipped', 'equal')}", "verdict 'equal', wanted one of differs"),
    ],
)
def test_a_file_that_is_not_strict_is_refused_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(BadExpectations, match=why) as caught:
        read_expectations(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    link = "https://example.org/1"
    entries = [
        Expectation("rnn-*", "skipped", 'later, "perhaps" \\ never', link),
        Expectation("a", "differs", "x"),
    ]
    (tmp_path / "x").write_text(as_toml(entries))
    assert read_expectations(tmp_path / "x") == entries
