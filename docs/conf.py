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

_ERRATA = re.compile(r"^\| (S?\d+\.\d+) \| (.*) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)
_FOLDER = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:examples|tests|reference)(?:/\w+)?/?\)")
_TUTORIAL = re.compile(r"\]\((?:\.\./)?reference/(\w+)\.py\)")


def tutorial_page(name: str) -> str:
    """Return the page of a tutorial, in MyST's Markdown."""
    rows = [
        f"| {number} | {published} | {happens} | {here} |"
        for number, published, happens, here, _ in _ERRATA.findall((DOCS / "errata.md").read_text(encoding="utf-8"))
        if re.search(rf"`{name}\b", here)
    ]
    table = ["| | published | what happens | here |", "|---|---|---|---|", *rows] if rows else ["None by itself."]
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


def setup(app: Any) -> None:
    (DOCS / "tutorials").mkdir(exist_ok=True)
    for name in TUTORIALS:
        (DOCS / "tutorials" / f"{name}.md").write_text(tutorial_page(name), encoding="utf-8")
    app.connect("source-read", read)
    app.connect("include-read", read)
