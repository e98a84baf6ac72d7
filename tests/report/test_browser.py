"""Each page in a real browser: it draws and answers, says nothing on its console, and fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.judge.facts import Facts
from faults.judge.rules import judge
from faults.ledger import record
from faults.report.page import page
from faults.report.sweep_page import write_sweep_page
from reference.conform.expected_verdicts import compare_expectations
from reference.conform.judge import Judged
from reference.conform.report import Report, as_html
from tests.judge.by_hand import calls, event, script
from tests.support.browser import Browser, browser
from tests.support.stored_runs import stored_run
from tests.support.suite_runs import suites

# A browser keeps processes for pages to come until it is closed.
pytestmark = [pytest.mark.long, pytest.mark.leaves("processes", "memory")]

HUNG = "programs/parameter_server Crash role=trainer_1 at=call:__main__:ParameterServer.push_gradients#2@trainer_1"
ROWS = ["matrix/sharded_parameter_server-Crash-before", "matrix/reinforce-Pause-at-step", HUNG]


def written(row: str, place: Path) -> Path:
    folder = stored_run(row, place)
    run = record.read(folder)
    path = place / "page.html"
    path.write_text(page(Facts(run), judge(run), folder), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[(400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")])
def shown(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """A browser of this width and theme."""
    with browser(*request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def wide() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def paths(shown: Browser) -> list[str]:
    return [str(each.get_attribute("aria-label")) for each in shown.all("#drawing .call")]


@pytest.mark.parametrize("row", ROWS)
def test_a_page_is_drawn_whole_and_fetches_nothing(shown: Browser, row: str, tmp_path: Path) -> None:
    path = written(row, tmp_path)
    shown.open(path)
    assert paths(shown)
    assert shown.console() == []
    assert shown.fetched() == [path.as_uri()]
    assert shown.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert shown.run("return document.getElementById('drawing').getBoundingClientRect().height") > 50


def test_texts_have_contrast_in_both_themes(shown: Browser, tmp_path: Path) -> None:
    """At least 4.5, which WCAG asks for (success criterion 1.4.3)."""
    shown.open(written(ROWS[0], tmp_path))
    ratios = shown.run("""
        const light = text => { const [r, g, b] = text.match(/[0-9.]+/g).slice(0, 3).map(each => each / 255)
            .map(each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b };
        const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        const paper = light(getComputedStyle(document.body).backgroundColor);
        return [...document.querySelectorAll("p, td, th, summary, pre, .dim, .fail, .pass, .unknown")]
            .map(each => ratio(light(getComputedStyle(each).color), paper));
    """)
    assert min(ratios) >= 4.5


def test_a_click_on_a_call_tells_its_facts(wide: Browser, tmp_path: Path) -> None:
    wide.open(written(ROWS[0], tmp_path))
    wide.run("document.querySelector('#drawing .call.fail').dispatchEvent(new Event('click'))")
    told = wide.text("#told")
    assert "push_and_fetch#3" in told
    assert "It began at" in told


def test_the_keyboard_reaches_all(wide: Browser, tmp_path: Path) -> None:
    """Tab comes to the drawing and to each sign in it; its keys move and enlarge the view."""
    wide.open(written(ROWS[0], tmp_path))
    from selenium.webdriver.common.keys import Keys

    wide.run("document.getElementById('drawing').focus()")
    wide.keys("0")
    before = wide.text("#count")
    wide.keys("+", "+", "+")
    assert wide.text("#count") != before
    wide.keys("0")
    assert wide.text("#count") == before
    wide.keys(Keys.TAB)
    first = wide.text("#told")
    wide.keys(Keys.TAB)
    assert wide.run("return document.activeElement.getAttribute('aria-label')") == wide.text("#told") != first


def test_calls_that_returned_can_be_hidden(wide: Browser, tmp_path: Path) -> None:
    wide.open(written(ROWS[0], tmp_path))
    every = len(paths(wide))
    wide.click("#quiet")
    assert 0 < len(paths(wide)) < every


def test_a_plan_can_be_copied(wide: Browser, tmp_path: Path) -> None:
    wide.open(written(ROWS[0], tmp_path))
    wide.click(".copy")
    assert wide.run("return document.querySelector('.copy').textContent") == "Copied"


def test_ten_thousand_calls_are_drawn_at_once(wide: Browser, tmp_path: Path) -> None:
    """The whole view has those that matter and the longest; the others come as it is enlarged."""
    run = script("seed=0", *calls(10_000), event("a", "invoke", 4.5, site="shop:lost", nth=1, to="b"))
    path = tmp_path / "page.html"
    path.write_text(page(Facts(run), judge(run), tmp_path), encoding="utf-8")
    wide.open(path)
    assert 0 < len(paths(wide)) <= 1500
    assert any("lost#1" in each for each in paths(wide))
    assert wide.run("const begun = performance.now(); draw(); return performance.now() - begun") < 1000
    assert wide.console() == []


def test_a_sweeps_words_lead_to_the_pages_of_its_runs(wide: Browser, tmp_path: Path) -> None:
    folder = stored_run(ROWS[0], tmp_path)
    run = record.read(folder)
    judgement = judge(run)
    cell = {"site": "m:f", "kind": "Crash before", "occurrence": "first", "call": "a#1"}
    told = {"plan": str(run.plan), "cell": cell, "verdict": judgement.verdict, "passed": True}
    report = {"program": "p", "runs": [told], "not_run": 0, "not_hurt": []}
    path = tmp_path / "at 12:30#1%20.html"
    write_sweep_page(path, report, ["Crash before"], {str(run.plan): (folder, judgement)})
    wide.open(path)
    assert wide.console() == []
    wide.click("td a")
    assert paths(wide)
    assert judgement.verdict in wide.text("h1 + p")


def test_the_page_of_conformance_opens_its_verdicts(shown: Browser, tmp_path: Path) -> None:
    judged = [
        Judged("rnn-001", "equal"),
        Judged("pipeline-001", "differs", "0000/loss: " + "x" * 500, ("from there on",)),
    ]
    ids = [each.id for each in judged]
    report = Report("2026.11", judged, compare_expectations(judged, [], ids), dict.fromkeys(ids, ("TENSORS",)))
    path = tmp_path / "conformance.html"
    path.write_text(as_html({"mine": report, "theirs": report}), encoding="utf-8")
    shown.open(path)
    shown.click("summary.bad")
    assert "from there on" in shown.text("details[open]")
    assert shown.console() == []
    assert shown.fetched() == [path.as_uri()]
    assert shown.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_a_report_of_pytest_leads_to_the_page_of_a_failed_test(
    wide: Browser, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = suites(pytester, monkeypatch)
    run("failing", "--faults-report", "pages", "--html", "report.html", "-k", "test_wrong")
    wide.open(pytester.path / "report.html")
    link = wide.run("return document.querySelector('a[href$=\".html\"].col-links__extra')?.href")
    wide.open(link)
    assert paths(wide)
    assert "no sale" in wide.text("main")
    assert wide.console() == []
