"""Bugs that operators make are drawn and tried, and the results say what guards nothing."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.coverage.probes import Probes
from tests.coverage.record import Record
from tests.kills import __main__ as command
from tests.kills import reaching
from tests.kills.operators import bugs_of, drawn
from tests.kills.reaching import nearest, seconds_of
from tests.kills.results import Tried, add, load, score
from tests.mutants import gate

# Each piece of a program, and what the operators make of it.
CHANGES = [
    ("x = a < b", {"a <= b"}),
    ("x = a is not b", {"a is b"}),
    ("x = (a) not in (b)", {"(a) in (b)"}),
    ("x = a and b or c", {"a or b or c", "a and b and c", "((b)) or c", "((a)) or c", "((a and b))", "((c))"}),
    ("x = é + b", {"é - b"}),
    ("x = 'a' + b", set()),
    ("x = not a", {"a"}),
    ("x = -a", {"a"}),
    ("x = True", {"False"}),
    ("x = 0.5", {"1.5"}),
    ("x: int = 2", {"3"}),
    ("x = min(a)", {"max(a)"}),
    ("f()", {"pass"}),
    ("x = f(a, b=c)", {"f(a)"}),
    ("x = f(b=c)", {"f()"}),
    ("x.y = a", {"pass"}),
    ("x += a", {"pass"}),
    ("del x", {"pass"}),
    ("x = a if b else c", {"a if (not (b)) else c"}),
    ("x = [a for a in b if c]", {"[a for a in b if True]"}),
    ("def f() -> Literal[1]:\n    '''1 < 2'''\n    return a", {"return None"}),
    ("def f():\n    return None", {"pass"}),
    ("while a:\n    break", {"while (not (a)):\n    break", "while a:\n    pass"}),
    ("if a:\n    raise b", {"if (not (a)):\n    raise b", "if a:\n    pass"}),
    ("try:\n    a\nexcept b:\n    c", {"except ():\n    c"}),
    ("if __name__ == '__main__':\n    f()", set()),
    ("if TYPE_CHECKING:\n    f()", set()),
    ("x = f'{a + b}'", set()),
]


@pytest.mark.parametrize(("text", "changed"), CHANGES)
def test_each_operator_makes_its_change(text: str, changed: set[str]) -> None:
    found = [bug.planted(text) for bug in bugs_of("a.py", text)]
    assert len(found) == len(changed)
    assert all(any(each in whole for whole in found) for each in changed)


def test_a_bug_is_named_by_its_place_and_what_is_put_there() -> None:
    (bug,) = bugs_of("a.py", "\n\nx = é < b\n")
    assert bug.name.startswith("a.py:3:9 comparison ")
    assert bug.line == 3
    assert bug.old == "<"
    assert bug.new == "<="
    assert len({each.name for each in bugs_of("a.py", "x = a and b\n")}) == 3


def test_the_seed_decides_what_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("".join(f"x{number} = a < {number}\n" for number in range(50)))
    names = [[each.name for each in drawn(tmp_path, ["a.py"], 10, seed)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == 10
    assert len(drawn(tmp_path, ["a.py"], 1000, 1)) == 100


def test_what_is_the_same_program_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(a):\n    for b in zip(a, a, strict=True):\n        g(b)\n    return None\n")
    (found,) = drawn(tmp_path, ["a.py"], 100, 1)
    assert found.old == "g(b)"


TESTS = ["tests/test_a.py::test_far", "tests/test_b.py::test_near", "tests/test_b.py::test_slow", "(no test)"]


def record(hits: list[list[int]], file: str = "c.py") -> Record:
    """The record of tests that hit lines 1, 3 and 5 of a file."""
    return Record("sources", [(file, 1), (file, 3), (file, 5)], TESTS[: len(hits)], np.array(hits, bool))


def test_the_shortest_tests_of_a_statement_come_first_and_more_of_the_file_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"tests/test_b.py": {TESTS[2]: 10.0, "tests/test_b.py": 1.0}}
    monkeypatch.setattr(reaching, "recorded", lambda: seconds)
    hits = [[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
    reach = partial(nearest, record(hits), "c.py", seconds=seconds_of(TESTS))
    far, near, slow, _ = TESTS
    assert reach(4, most=60) == (far, near, slow), "line 4 belongs to the statement of line 3"
    assert reach(3, most=5) == (far, near)
    assert reach(3, most=0.01) == (far,), "one test runs in any case"
    assert reach(1, most=60) == (far,)
    assert reach(5, most=60) == (far, near, slow), "an import executes it"
    named = partial(nearest, file="b.py", line=3, seconds=seconds_of(TESTS), most=0.01)
    assert named(record(hits, "b.py")) == (near,), "the file of its name comes first"
    assert named(record([[0, 0, 0]] * 3, "b.py")) == (near,), "nothing of it is measured"


def tried(name: str, verdict: str, *failed: str, room: str = "reference/rpc") -> Tried:
    return Tried("sources", name, "a change", f"{room}/a.py", 1, verdict, failed)


def test_results_are_read_again_but_those_of_other_sources(tmp_path: Path) -> None:
    path = tmp_path / "kills" / "results.jsonl"
    first, second = tried("a", "killed", "t"), tried("b", "survived")
    assert load(path, "sources") == []
    add(path, first)
    add(path, second)
    with path.open("a") as file:
        file.write('{"sources": "sou')  # the command was killed while it wrote
    assert load(path, "sources") == [first, second]
    assert load(path, "others") == []


def test_the_score_counts_by_room() -> None:
    results = [
        tried("a", "killed", "t"),
        tried("b", "broken"),
        tried("f", "overdue", room="faults"),
        tried("c", "survived"),
        tried("d", "survived"),
        tried("e", "unreached", room="faults"),
    ]
    assert score(results) == {"faults": (0, 2), "reference/rpc": (2, 4), "all": (2, 6)}


SOURCE = """
def add(a, b):
    return a + b


def twice(a):
    return a * 2
"""


@pytest.mark.long
def test_a_sample_is_tried_once_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no test reaches is tried against the tests of the file."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/sums.py").write_text(SOURCE)
    (tmp_path / "test_sums.py").write_text("from shop.sums import add\n\ndef test_add():\n    assert add(1, 0) == 1\n")
    (tmp_path / "conftest.py").write_text(
        "from hypothesis import settings\n\nsettings.register_profile('whole', max_examples=100)\n"
    )
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=60)
    files = [tmp_path / "shop/sums.py"]
    monkeypatch.setattr(command, "sources", lambda _: files)
    monkeypatch.setattr(command, "SOURCES", ("shop/",))
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "RECORD", tmp_path / "record.npz")
    monkeypatch.setattr(command, "RESULTS", tmp_path / ".kills/results.jsonl")
    monkeypatch.setattr("reference.system.interrupts.listen", lambda: None)
    monkeypatch.setattr(gate, "PRELOADED", ("pytest",))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path.parent))
    probes = Probes(tmp_path, files)
    hit = [[line == 3 for _, line in probes.all]]
    Record(probes.digest, probes.all, ["test_sums.py::test_add"], np.array(hit, bool)).save(tmp_path / "record.npz")
    assert command.main(["sample"]) == 0
    found = load(command.RESULTS, probes.digest)
    assert command.main(["sample"]) == 0
    assert load(command.RESULTS, probes.digest) == found, "nothing is tried twice"
    verdicts = {each.change: each.verdict for each in found}
    assert verdicts == {
        "arithmetic: + -> -": "survived",  # the test adds 0
        "return: a + b -> None": "killed",
        "arithmetic: * -> /": "survived",
        "constant: 2 -> 3": "survived",
        "return: a * 2 -> None": "survived",
    }
    capsys.readouterr()
    assert command.main(["score"]) == 0
    said = capsys.readouterr().out
    assert "shop/sums.py:3: survived: arithmetic: + -> -\n" in said
    assert said.splitlines()[-1].split() == ["all", "1", "of", "5", "20.0", "%"]
    (tmp_path / "shop/sums.py").write_text(SOURCE.replace("2", "4"))
    with pytest.raises(SystemExit):
        command.main(["score"])
    assert "the record is of other sources" in capsys.readouterr().err
