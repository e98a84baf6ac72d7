"""Run the reproductions of examples/upstream with each of several Pythons, and print what docs/upstream.md has of them.

``python benchmarks/upstream.py [PYTHON ...]``: one with each version of torch; by default the one that runs this. A
reproduction's exit status is 10 if torch does what its docstring says, and 0 if not.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

EXAMPLES = Path(__file__).parents[1] / "examples" / "upstream"
LIMIT = 120.0
SIGNS = {0: "no", 10: "yes"}


def seen(python: str, program: Path) -> str:
    """Say whether torch does what a program shows: yes, no, or how else the program ended."""
    command = [python, "-W", "ignore", str(program)]
    try:
        with TemporaryDirectory() as place:  # some make files there, and remove none
            done = subprocess.run(
                command, env={**os.environ, "TMPDIR": place}, capture_output=True, timeout=LIMIT, check=False
            )
    except subprocess.TimeoutExpired:
        return f"over {LIMIT:g} s"
    return SIGNS.get(done.returncode, f"status {done.returncode}")


def table(found: Mapping[str, Mapping[Path, str]]) -> str:
    """The table of reproductions and versions of torch, in Markdown."""
    lines = [f"| reproduction | what torch does | {' | '.join(found)} |", f"|---|---|{'---|' * len(found)}"]
    for program in sorted(EXAMPLES.glob("*.py")):
        about = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
        cells = [f"[`{program.stem}`](../examples/upstream/{program.name})", about.rstrip(".")]
        lines.append(f"| {' | '.join(cells + [each[program] for each in found.values()])} |")
    return "\n".join(lines)


def main() -> None:
    found: dict[str, dict[Path, str]] = {}
    for python in sys.argv[1:] or [sys.executable]:
        ask = "import torch; print('.'.join(torch.__version__.split('.')[:2]))"
        version = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
        programs = sorted(EXAMPLES.glob("*.py"))
        with ThreadPoolExecutor(4) as pool:
            found[version] = dict(zip(programs, pool.map(partial(seen, python), programs), strict=True))
    sys.stdout.write(f"{table(found)}\n")


if __name__ == "__main__":
    main()
