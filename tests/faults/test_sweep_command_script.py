"""`sweep --script`: a program of the user's own, run under each fault, with a check of its results."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from faults.cli.main import main
from tests.support.script_runs import SCRIPTS, own
from tests.support.targets import read_report

DROP = "Drop site=__main__:pay role=till side=reply"

pytestmark = pytest.mark.usefixtures("plain_over_tcp", "own_folder")


def script(*arguments: str, name: str = "tally.py") -> list[str]:
    return ["--script", sys.executable, own(name, Path()), *arguments]


@pytest.mark.long
def test_a_payment_that_is_made_twice_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    """A lost reply makes this till pay again, which only its results show."""
    options = ["--sites", "__main__:p*", "--kinds", "Raise request,Drop reply", "--part", "1/1", "--dir", "runs"]
    checks = ["--same-output", "--ignore", "paying .*", "--same-file", "total.pt"]
    reports = ["--json", "report.json", "--junit", "report.xml"]
    assert main(["sweep", *options, *checks, *reports, *script("total.pt")]) == 1
    said = capfd.readouterr()
    assert "2 equal, 2 wrong" in said.out.splitlines()
    assert re.search(r"a run is overdue after \d+ s, or later if its own timeouts are longer", said.err)
    assert "paying 1 again" not in said.out  # the program prints into files
    found = read_report("report.json")
    verdicts = [("Raise request", "equal")] * 2 + [("Drop reply", "wrong")] * 2
    assert [(run["cell"]["kind"], run["verdict"]) for run in found["runs"]] == verdicts
    assert found["passed"] is False
    assert found["not_run"] == 0
    [trace] = [check["text"] for check in found["runs"][2]["checks"] if check["name"] == "result"]
    assert "no line '111 in the till', the line '112 in the till'" in trace
    assert "total.pt: ['total']: 1 of 1 numbers have other bits" in trace
    cases = ElementTree.parse("report.xml").getroot()
    assert [case.get("name") for case in cases if len(case)] == [run["plan"] for run in found["runs"][2:]]
    assert Path("runs/0000/faults-results/stdout").read_text() == "paying 1 again\n111 in the till\n"
    assert not Path("total.pt").exists()


@pytest.mark.long
def test_results_that_change_by_themselves_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    text = (SCRIPTS / "tally.py").read_text().replace("import tempfile", "import tempfile\nimport time")
    Path("my.py").write_text(text.replace("    sys.exit(", "    print(time.time_ns())\n    sys.exit("))
    assert main(["sweep", "--same-output", "--budget", "1e-6", "--dir", "runs", "--script", "my.py", "total.pt"]) == 2
    said = capfd.readouterr().err
    assert f"two healthy runs of {sys.executable} my.py total.pt differ: output: no line '" in said
    assert "(--ignore leaves out what changes)" in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "check", "why"),
    [
        (["sweep"], "false", "is not healthy: FAIL result: `false` ended with status 1"),
        (["run", "--plan", DROP], "false", "is not healthy: FAIL result: `false` ended with status 1"),
        (["run", "--healthy"], "no-such-command x", "the check `no-such-command x` cannot be started: "),
    ],
)
def test_a_check_that_fails_in_the_healthy_run_convicts_nobody(
    command: list[str], check: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--check", check, "--dir", "runs", *script("total.pt")]) == 2
    said = capfd.readouterr()
    assert "verdict" not in said.out
    [line] = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert why in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ignore", "x"], "--ignore has no effect without --same-output: wanted both"),
        (["--check", ""], "wanted a shell's command line, got ''"),
        (["--same-output", "--ignore", "("], "wanted a regular expression, got '('"),
        (["--same-file", "there"], "'there' is there already: wanted a file that each run of the program writes anew"),
        (["--same-file", ""], "'' is no name: wanted a file that each run"),
        (["--same-file", "x", "--jobs", "2"], "names a file that every run writes: wanted it without --jobs"),
        (["--json", "."], "cannot write .: it is a directory, wanted a file"),
    ],
)
def test_bad_options_are_one_line(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No process is started."""
    Path("there").touch()
    Path("my.py").write_text("raise SystemExit('started')")
    assert main(["sweep", *options, "--script", "my.py"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.long
def test_a_sweep_without_a_check_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """A payment that is made twice passes. The budget leaves one of the two cells, so nobody knows of the whole."""
    options = ["--kinds", "Drop reply", "--sites", "pay", "--budget", "1e-6", "--deadline", "50", "--dir", "runs"]
    assert main(["sweep", *options, "--json", "report.json", *script("total.pt")]) == 3
    said = capfd.readouterr()
    assert "no result is checked, so a run that ends with status 0 is unchecked: wanted --check, --same-" in said.err
    assert re.search(r"a run is overdue after 50 s$", said.err, re.MULTILINE)
    assert said.out.splitlines()[-2:] == ["1 more were not run: nothing is known of them", "1 unchecked"]
    assert read_report("report.json")["passed"] is None


@pytest.mark.long
def test_a_run_can_be_checked_by_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    """`run --check` prints what the program has printed, because the run fails."""
    plan = "Drop site=__main__:pay role=till nth=2 side=reply"
    check = 'grep -qx "111 in the till" $FAULTS_OUTPUT && test -s total.pt'
    options = ["--plan", plan, "--dir", "run", "--json", "report.json", "--check", check]
    assert main(["run", *options, *script("total.pt")]) == 1
    said = capfd.readouterr().out
    assert "  | paying 10 again\n  | 121 in the till\n" in said
    assert "verdict: wrong" in said
    [run] = read_report("report.json")["runs"]
    assert run["plan"] == plan
    assert run["verdict"] == "wrong"
    assert run["passed"] is False
    assert main(["check", "run", "--junit", "again.xml"]) == 1
    assert ElementTree.parse("again.xml").getroot().get("failures") == "1"
