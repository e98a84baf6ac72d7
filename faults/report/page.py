"""Write the page of a run: one HTML file that fetches nothing. All texts of programs are escaped and have a limit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from faults.judge.causes import had_logged, met, told_ends
from faults.judge.drawing import EVENTS, MOST, TEXT, drawing, end_of_command, happened, shortened
from faults.judge.facts import Facts, Life, links_in
from faults.judge.rules import Check, Judgement
from faults.judge.story import ASKS, fault_stories, sentence
from faults.judge.waiting import told_waits
from faults.ledger.error_links import Link
from faults.ledger.record import COMMAND
from faults.script.results import printed
from faults.script.stacks import STACKS
from reference import TUTORIALS
from reference.outcome import end_of
from reference.system.files import Unusable, last_of, log_of, stacks_of
from reference.system.text import one_line, printable

# The most roles whose ends are shown with their logs.
LOGS = 40


def page(facts: Facts, judgement: Judgement, folder: Path, said: tuple[str, str] | None = None) -> str:
    """Return the page of a run that lies in ``folder``. ``said``: who else has judged it, and failed it: a word and a
    sentence."""
    drawn, lives = drawing(facts), _shown(facts)
    ends = {*told_ends(facts, lives)}  # which the page tells of each role, and not once more
    run = facts.run
    text: str = template("page.html").render(
        name=line(_title(run.name)),
        whole_name=line(run.name),
        verdict=said[0] if said else judgement.verdict,
        passed=WORDS[False if said else judgement.passed],
        sentence=line(said[1] if said else sentence(facts, judgement)),
        broken=[] if said else [_check(each) for each in judgement.complaints],
        held=[] if said else [_check(each) for each in judgement.checks if each.holds],
        losses=_losses(run.losses),
        faults=[{"text": line(e.text), "verdict": e.verdict, "times": _times(e.times)} for e in fault_stories(facts)],
        drawing=drawn,
        kept=MOST,
        events=shortened(happened(drawn), EVENTS),
        waits=[*map(line, told_waits(facts)), *(line(f"{name} waits at {at}") for name, at in run.waits.items())],
        leaks=[line(each) for each in run.leaks],
        ends=list(_ends(facts, lives, folder)),
        notes=[line(each) for each in judgement.notes if each not in ends],
        repeat=list(_repeat(facts)),
        seconds=f"The run took {run.seconds:.2f} s, with its start." if run.complete else "",
        versions=", ".join(_versions(facts)),
        made=f"Made by torch-rpc-reference from the folder “{line(str(folder))}”.",
    )
    return text


WORDS = {True: "pass", False: "fail", None: "unknown"}


def _check(check: Check) -> dict[str, str]:
    return {"name": check.name, "asks": ASKS[check.name], "holds": WORDS[check.holds], "text": line(check.text)}


def _title(name: str) -> str:
    """A command without the folders of its files."""
    return " ".join(Path(word).name if word.startswith("/") else word for word in name.split())


# The size of the drawing of losses.
_WIDTH, _HEIGHT = 600, 140


def _losses(losses: Mapping[str, Sequence[float]]) -> dict[str, Any] | None:
    """Return the curves of a run and its twin as points of a drawing, and the first step in which they differ."""
    own, twin = losses.get("run", ()), losses.get("twin", ())
    if not own or not twin:
        return None
    low, high = min(*own, *twin), max(*own, *twin)
    scale = max(1.0, abs(low), abs(high))  # a difference of two losses may be too large for a number
    bottom, span = low / scale, high / scale - low / scale or 1.0

    def points(values: Sequence[float]) -> str:
        right = _WIDTH / max(1, len(values) - 1)
        heights = (_HEIGHT - (value / scale - bottom) / span * _HEIGHT for value in values)
        return " ".join(f"{step * right:.1f},{height:.1f}" for step, height in enumerate(heights))

    first = next((step for step, (mine, its) in enumerate(zip_longest(own, twin)) if mine != its), None)
    same = "They are equal." if first is None else f"They differ from step {first} on."
    return {"run": points(own), "twin": points(twin), "low": f"{low:.6g}", "high": f"{high:.6g}", "said": same}


def _versions(facts: Facts) -> Iterator[str]:
    """Yield the versions that the roles have told, each once."""
    for name in ("torch", "python"):
        found = {str(event.details[name]) for event in facts.run.timeline.of("up") if name in event.details}
        yield from (line(f"{name} {version}") for version in sorted(found))


def template(name: str) -> Any:
    """Return one of this folder's templates, which escapes all that it is given."""
    loader = PackageLoader("faults", "report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name)


def line(text: str) -> str:
    """Make one printable line of limited length of any text."""
    return one_line(" ".join(text.split()), 4 * TEXT)


def _times(times: Any) -> list[tuple[float, str]]:
    found = [(time, line(what)) for time, what in times]
    return found if len(found) <= 8 else [*found[:7], (found[-1][0], f"(the last of {len(found)}) {found[-1][1]}")]


def _shown(facts: Facts) -> list[Life]:
    """Return the lives whose ends are shown: if there are too many, those that failed first."""
    first = sorted(facts.lives, key=lambda life: life.end.returned)[:LOGS]
    return [life for life in facts.lives if life in first]


def _ends(facts: Facts, lives: Sequence[Life], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield how each life ended, with its chain of errors and the end of what it has written."""
    failures = {(each.role, each.life): each for each in facts.failures}

    def chain(role: str, number: int, otherwise: Sequence[Link] = ()) -> dict[str, Any]:
        failure = failures.get((role, number))
        links = (failure.links if failure else ()) or otherwise
        return {"met": line(met(facts, failure)) if failure else "", "chain": list(_chain(links))}

    for life in lives:
        failed = not life.end.returned
        yield {
            "role": line(facts.name_of(life)),
            "text": line(life.end.text + (had_logged(life, failures.get((life.role, life.number))) if failed else "")),
            "bad": failed,
            "files": list(_files(folder, life.role)) if failed and life is facts.last[life.role] else [],
            **chain(life.role, life.number, _links(life) if failed else ()),
        }
    if facts.command is not None:
        found = [(f"{name}, each line once", "\n".join(lines)) for name, lines in printed(folder)]
        if text := _end_of(folder / STACKS):
            found.append(("stacks of overdue processes", text))
        bad = not facts.command.returned
        yield {
            "role": "the command",
            "text": line(end_of_command(facts.command)),
            "bad": bad,
            "files": found,
            **chain(COMMAND, 1),
        }


def _links(life: Life) -> list[Link]:
    event = life.of("raised") or life.of("logged")
    return links_in(event) if event is not None else []


_WAYS = {"cause": "raised from", "context": "while handling", "member": "of the group", "callee": "the callee raised"}


def _chain(links: Sequence[Link]) -> Iterator[dict[str, Any]]:
    depths: list[int] = []
    for link in links:
        depths.append(depths[link.of] + 1 if link.way else 0)
        yield {"way": _WAYS.get(link.way, ""), "text": line(str(link)), "depth": depths[-1]}


def _files(folder: Path, role: str) -> Iterator[tuple[str, str]]:
    for title, path in (("the end of its log", log_of(folder, role)), ("its stacks", stacks_of(folder, role))):
        if text := _end_of(path):
            yield title, text


def _end_of(path: Path) -> str:
    """The last lines of a file, with characters that can be printed; empty if there is none."""
    try:
        lines = end_of(last_of(path).decode(errors="replace")).splitlines()
    except Unusable:
        return ""
    return "\n".join(one_line(each) for each in lines)


def _repeat(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what makes the same run again: the plan, the command and the mark for pytest."""
    plan = str(facts.run.plan)
    how = f"--plan {shlex.quote(plan)}" if facts.run.has_faults else "--healthy"
    if facts.run.has_faults:
        yield "The plan", printable(plan)
    name = facts.run.name.partition(" ")[0]
    title = "The command, without the options that say what is right, how long it may take and how often it starts"
    how += " --leaks trace" * bool(facts.run.timeline.of("tracing"))
    if facts.command is not None and facts.command.process:  # not of a folder that something else has started
        yield title, printable(f"python -m faults run {how} --script -- {facts.run.name}")
    elif name in TUTORIALS:
        yield title, printable(f"python -m faults run {name} {_options(facts.run.name)}{how}")
    if facts.run.has_faults:
        yield "The mark of a test", printable(f"@pytest.mark.plan({plan!r})")


def _options(name: str) -> str:
    """The options of a tutorial's case, whose name tells them as ``field=value``, quoted as for a shell."""
    words = []
    try:
        fields = shlex.split(name)[1:]
    except ValueError:  # no name that this version has made
        fields = name.split(" ")[1:]
    for field, _, value in (each.partition("=") for each in fields):
        option = field.replace("_", "-")
        flag = {"True": f"--{option}", "False": f"--no-{option}"}.get(value)
        words.append(flag or f"--{option} {shlex.quote(value)}")
    return "".join(f"{each} " for each in words)
