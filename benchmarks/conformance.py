"""Run all example implementations on the core suite, and write the page of their verdicts.

``python benchmarks/conformance.py [--page FILE]``. It wants a C compiler, cJSON, rustc, JAX, Monarch and Ray for some
programs (`tox run -e engines` installs the engines). Without a compiler there is no column of its language.
Exit status 1: an answer is wrong, or an engine is not there, or answers nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
SIGNS = {"equal": "=", "within bound": "≈", "skipped": ""}
Verdicts = Mapping[str, str]


def commands(folder: Path) -> dict[str, list[str]]:
    """Each implementation's name and command; those in C and Rust are compiled into ``folder``."""
    python = sys.executable
    found = {
        "NumPy": [python, str(EXAMPLES / "numpy")],
        "JAX": [python, str(EXAMPLES / "jax")],
        "DDP (gloo)": [python, str(EXAMPLES / "torch" / "ddp.py")],
        "pipelining, GPipe": [python, str(EXAMPLES / "torch" / "pipelining.py"), "GPipe"],
        "pipelining, 1F1B": [python, str(EXAMPLES / "torch" / "pipelining.py"), "1F1B"],
        "Ray": [python, str(EXAMPLES / "ray" / "parameter_servers.py")],
        "Monarch": [python, str(EXAMPLES / "monarch" / "actors.py")],
    }
    compiler = shutil.which("cc")
    if compiler:
        program, source = folder / "parameter_server", EXAMPLES / "c" / "parameter_server.c"
        subprocess.run([compiler, "-O2", "-o", program, source, "-lcjson", "-lm"], check=True)
        found["C"] = [str(program)]
    if rustc := shutil.which("rustc"):
        program, source = folder / "rnn", EXAMPLES / "rust" / "rnn.rs"
        subprocess.run([rustc, "-O", "--edition", "2021", "-o", program, source], check=True)
        found["Rust"] = [str(program)]
    return found


def verdicts(command: list[str], suite: Path, out: Path) -> Verdicts:
    """Run one implementation on every case; returns the verdicts by id."""
    conform = [sys.executable, "-m", "reference", "conform"]
    done = subprocess.run(
        [*conform, "run", str(suite), "--out", str(out), "-j", "2", "--format", "json", "--", *command],
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: conform ended with status {done.returncode}")
    cases = json.loads(done.stdout)["cases"]
    for each in cases:
        if each["verdict"] not in SIGNS:
            sys.stderr.write(f"{command[-1]}: {each['id']} {each['verdict']}: {each['text']}\n")
    return {each["id"]: each["verdict"] for each in cases}


def page(found: Mapping[str, Verdicts]) -> str:
    """The table of implementations and cases, in Markdown."""
    names = list(found)
    lines = [f"| case | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for case in sorted({case for each in found.values() for case in each}):
        cells = [SIGNS.get(found[name].get(case, ""), found[name].get(case, "")) for name in names]
        lines.append(f"| `{case}` | {' | '.join(cells)} |")
    return "\n".join(lines)


HEAD = """\
# The examples' verdicts

`=` equal, `≈` within the bound of a natural case, empty: not offered. Written by `python benchmarks/conformance.py`.

"""


def problems(found: Mapping[str, Verdicts]) -> list[str]:
    """What nobody should find on the page: one line for each wrong answer, and for an engine that has none."""
    wrong = [f"{name}: {case} {v}" for name, each in found.items() for case, v in each.items() if v not in SIGNS]
    return wrong + [f"{name} answers no case" for name, each in found.items() if {*each.values()} == {"skipped"}]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", metavar="FILE", help="write the page there, instead of printing it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        suite = folder / "suite"
        subprocess.run([sys.executable, "-m", "reference", "conform", "export", str(suite)], check=True)
        found = {name: verdicts(command, suite, folder / name) for name, command in commands(folder).items()}
    text = f"{HEAD}{page(found)}\n"
    if options.page:
        Path(options.page).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    told = problems(found)
    sys.stderr.writelines(f"{line}\n" for line in told)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
