"""Shared parts of the benchmarks: interleaved runs, medians with their spread, pairwise ratios, tables, JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from reference.outcome import Returned
from reference.world import World, launch

Ways = Mapping[str, Callable[[], float]]


class BenchmarkError(RuntimeError):
    """A run gave no figure."""


def parser(description: str) -> argparse.ArgumentParser:
    """Make a command line that shows its defaults, with the options of every benchmark."""
    built = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False
    )
    built.add_argument("--json", type=writable, metavar="FILE", help="write versions and every raw sample there")
    return built


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option of a benchmark whose tutorial can use a GPU."""
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="the case's device")


def count(text: str, least: int = 1) -> int:
    """Parse a whole number of the command line, at least ``least``."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Parse a duration of the command line in seconds."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0 seconds, got {text}")
    return value


def writable(text: str) -> Path:
    """Check now that a file can be written, because the figures come only minutes later."""
    path = Path(text).resolve()
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write {path}")
    return path


def existing(text: str) -> Path:
    """Parse the name of an existing file."""
    path = Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path


def interleaved(ways: Ways, repeats: int, *, unit: str, title: str = "") -> dict[str, list[float]]:
    """Measure every way once, then every way again, so that other load of the machine affects all of them alike."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(1, repeats + 1):
        for name, measure in ways.items():
            samples[name].append(measure())
            note(f"{title}{name}, {repeat} of {repeats}: {samples[name][-1]:.3f} {unit}")
    return samples


def note(text: str) -> None:
    """Print progress to standard error, so that it is not part of the output."""
    print(text, file=sys.stderr, flush=True)


def spread(samples: Sequence[float]) -> dict[str, Any]:
    """Median, least and greatest sample, and the samples in the order in which they were taken."""
    return {
        "median": statistics.median(samples),
        "min": min(samples),
        "max": max(samples),
        "samples": list(samples),
    }


def ratios(above: Sequence[float], below: Sequence[float]) -> dict[str, Any]:
    """The ratios of samples that were taken one after the other."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def cells(figures: Mapping[str, Any], digits: int) -> list[str]:
    """A table's three cells for one `spread`."""
    return [f"{figures[name]:.{digits}f}" for name in ("median", "min", "max")]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """Align columns: the first ``words`` of them to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, *rows):
        texts = [
            text.ljust(width) if column < words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return "\n".join(lines)


def returned(world: World) -> dict[str, object]:
    """Return every role's value.

    Raises:
        BenchmarkError: a role did not return; with the end of its log.
    """
    values: dict[str, object] = {}
    for name, outcome in world.wait().items():
        if not isinstance(outcome, Returned):
            raise BenchmarkError(f"{name} {outcome}\n{world.log(name)[-2000:]}")
        values[name] = outcome.value
    return values


def play(roles: Mapping[str, Callable[[], object]], **arguments: Any) -> dict[str, object]:
    """Run a world and return every role's value; ``arguments`` are `launch`'s. Raises BenchmarkError."""
    with launch(roles, **arguments) as world:
        return returned(world)


def output_of(script: Path, environment: Mapping[str, str], deadline: float, *arguments: str) -> str:
    """Run a program and return its output. If it takes too long, end it with all processes that it has started."""
    program = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = program.communicate(timeout=deadline)
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{script} was not done after {deadline:g} s") from error
    finally:
        end_group(program)
    if program.returncode != 0:
        raise BenchmarkError(f"{script} ended with status {program.returncode}\n{output[-2000:]}")
    return output


@dataclass
class Published:
    """A program to run beside ours. One run prints the figures of all its ways: the way that is asked first runs it.

    ``figures``: of each way a pattern of its line, whose group is the figure; ``variables``: makes those of a run.
    """

    script: Path
    deadline: float
    figures: Mapping[str, str]
    variables: Callable[[], Mapping[str, object]]
    arguments: Sequence[str] = ()
    printed: dict[str, float] = field(default_factory=dict)

    def ways(self) -> Ways:
        return {way: partial(self.figure, way) for way in self.figures}

    def figure(self, way: str) -> float:
        if way not in self.printed:
            with tempfile.TemporaryDirectory(prefix="published-") as folder:
                own = {name: str(value) for name, value in self.variables().items()}
                environment = {**os.environ, **own, "OMP_NUM_THREADS": "1", "TMPDIR": folder}
                output = output_of(self.script, environment, self.deadline, *self.arguments)
            for name, line in self.figures.items():
                found = re.search(line, output, re.MULTILINE)
                if found is None:
                    raise BenchmarkError(f"the published program printed no line like {line!r}\n{output[-2000:]}")
                self.printed[name] = float(found[1])
        return self.printed.pop(way)


def end_group(program: subprocess.Popen[str]) -> None:
    """End all processes of a program that leads its own process group."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def machine() -> dict[str, Any]:
    """The facts that the figures depend on: versions, cores and load."""
    return {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "load": os.getloadavg()[0],
    }


def heading(facts: Mapping[str, Any]) -> str:
    """One line that says where the figures were taken."""
    where = f"torch {facts['torch']}, Python {facts['python']}, {facts['cores']} cores, GPU: {facts['gpu']}"
    return f"{where}, load before {facts['load']:.2f}\n"


def write(path: Path | None, benchmark: str, facts: Mapping[str, Any], **content: object) -> None:
    """Write the JSON file of ``--json``."""
    if path is not None:
        path.write_text(json.dumps({"benchmark": benchmark, "machine": facts, **content}, indent=1) + "\n")


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`, with a one-line error instead of a traceback."""
    try:
        main()
    except BenchmarkError as error:
        raise SystemExit(f"{Path(sys.argv[0]).name}: {error}") from error
