"""Build the site of these pages: ``tox run -e docs``, which calls every warning an error.

A page for each tutorial is made here, of its docstring, the corrections of the published code, and its source. Links to
files of the repository become downloads, and links to its folders become plain text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from reference import TUTORIALS  # noqa: E402 (of this checkout)

project = "torch-rpc-reference"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "torch-rpc-reference"
myst_heading_anchors = 4
default_role = "code"
highlight_language = "none"  # what programs print has no language
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# The folder of tutorials is made by this file, and ignored by git.
exclude_patterns = ["_build"]

_ERRATA = re.compile(r"^\| (S?\d+)\.(\d+) \| (.*) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)
# Which steps of which seed each tutorial is made of, beside the rows that name its module: first and last numbers.
_STEPS = {
    "rpc_basics": {"S0": (1, 5), "S3": (1, 1)},
    "rref_dataflow": {"S3": (1, 1)},
    "dist_autograd": {"S3": (2, 3)},
    "parameter_server": {"S1": (1, 17)},
    "batch_parameter_server": {"S2": (1, 12)},
    "sharded_parameter_server": {"S3": (6, 6)},
    "reinforce": {"S0": (6, 14)},
    "batch_reinforce": {"S2": (20, 38)},
    "rnn": {"S0": (15, 22)},
    "pipeline": {"S4": (1, 14)},
    "hybrid_ddp": {"S3": (7, 7)},
}
_FOLDER = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:examples|tests|reference)(?:/\w+)?/?\)")
_TUTORIAL = re.compile(r"\]\((?:\.\./)?reference/(\w+)\.py\)")
# The rows of errata.md: seed, step, what is published, what happens, what is here, severity.
_ROWS: list[tuple[str, ...]] = _ERRATA.findall((DOCS / "errata.md").read_text(encoding="utf-8"))


def _range(name: str, seed: str) -> tuple[int, int]:
    first, last = _STEPS.get(name, {}).get(seed, (0, -1))
    return first, last + 1


def tutorial_page(name: str) -> str:
    """Return the page of a tutorial, in MyST's Markdown."""
    rows = [
        f"| {seed}.{step} | {published} | {happens} | {here} | {severity} |"
        for seed, step, published, happens, here, severity in _ROWS
        if int(step) in range(*_range(name, seed)) or re.search(rf"`{name}\b", here)
    ]
    rows = [re.sub(r"\]\((\w+\.md)", r"](../\1", row) for row in rows]  # seen from the folder of tutorials
    table = ["| | published | what happens | here | severity |", "|---|---|---|---|---|", *rows]
    return "\n".join(
        [
            f"# {name}",
            "",
            "```{eval-rst}",
            f".. automodule:: reference.{name}",
            "   :no-index:",
            "```",
            "",
            f"Its arithmetic is [written for other implementations](../conformance/{name}.md), too.",
            "",
            "## Corrections of the published code",
            "",
            "Numbers are those of [all errata](../errata.md), by seed and step.",
            "",
            *table,
            "",
            "## Source",
            "",
            f"```{{literalinclude}} ../../reference/{name}.py",
            ":language: python",
            "```",
            "",
        ]
    )


def read(_: Any, *place_and_content: Any) -> None:
    """Change the links of a page to what the site has."""
    content = place_and_content[-1]
    content[0] = _FOLDER.sub(r"\1", _TUTORIAL.sub(r"](tutorials/\1.md)", content[0]))
    content[0] = content[0].replace("](CHANGELOG.md)", "](changelog.md)")
    content[0] = content[0].replace("tutorials/*", "\n".join(f"tutorials/{name}" for name in TUTORIALS))


def setup(app: Any) -> None:
    for seed, step, *_ in _ROWS:
        if seed[0] == "S" and seed != "S3" and not any(int(step) in range(*_range(name, seed)) for name in _STEPS):
            raise ValueError(f"erratum {seed}.{step} is of no tutorial in _STEPS")
    (DOCS / "tutorials").mkdir(exist_ok=True)
    for name in TUTORIALS:
        (DOCS / "tutorials" / f"{name}.md").write_text(tutorial_page(name), encoding="utf-8")
    app.connect("source-read", read)
    app.connect("include-read", read)
