"""The golden runs as files of the repository: one archive a table, which `record` writes and nobody edits.

A run's files lie in the archive below the name of its row, with `golden.json`: the verdict that was written down, and
what each check found, when the run was recorded.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
GOLDEN = "golden.json"

# The files of a run, by their paths in its folder.
Files = Mapping[str, bytes]


def archive(source: str) -> Path:
    return FOLDER / f"{source}.tar.xz"


def unpacked(source: str) -> dict[str, dict[str, bytes]]:
    """Return the runs of an archive by the names of their rows; none if there is no archive."""
    found: dict[str, dict[str, bytes]] = {}
    if archive(source).exists():
        with tarfile.open(archive(source)) as file:
            for member in file:
                name, _, path = member.name.partition("/")
                content = file.extractfile(member)
                assert content is not None, f"{member.name} is no file"
                found.setdefault(name, {})[path] = content.read()
    return found


def pack(source: str, runs: Mapping[str, Files]) -> None:
    """Write an archive. The same runs give the same bytes."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as file:
        for name, files in sorted(runs.items()):
            for path, content in sorted(files.items()):
                member = tarfile.TarInfo(f"{name}/{path}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    scratch = archive(source).with_suffix(".new")
    scratch.write_bytes(lzma.compress(whole.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    scratch.replace(archive(source))


def write(files: Files, place: Path) -> None:
    """Write a run's files into a folder."""
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
