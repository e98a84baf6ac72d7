"""Compile a C program of a test. Without a compiler the test skips, or fails (`required`)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support import required

_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")


def compiled(source: Path, target: Path, *options: str, header: str = "stdlib.h", packages: str) -> Path:
    """Compile ``source`` without warnings and return ``target``.

    ``header``: one that has to be there; ``packages``: those of Debian that have the compiler and the header.
    """
    compiler = shutil.which("cc") or ""
    if not compiler or not _has(compiler, header):
        required.require(f"wanted a C compiler and {header} (Debian: {packages})", required.C)
    subprocess.run([compiler, *_FLAGS, "-o", target, source, *options], check=True, timeout=60)
    return target


def _has(compiler: str, header: str) -> bool:
    text = f"#include <{header}>\n"
    found = subprocess.run([compiler, "-E", "-"], input=text.encode(), capture_output=True, timeout=60)
    return found.returncode == 0
