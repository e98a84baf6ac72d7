"""Check the results of a program whose command has ended with status 0: by a command, its output, or its files.

Output and files are compared with those of a healthy run. They lie in the folder `RESULTS` of each run's folder.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from faults.ledger.run_files import RESULTS
from faults.plan.places import shown
from reference.system.files import Unusable, last_of
from reference.system.text import one_line


def output_difference(wanted: Path, got: Path, ignored: Sequence[re.Pattern[str]] = ()) -> str | None:
    """Return one line about what differs, None if nothing does. What ``ignored`` matches is taken out beforehand."""
    before, after = _lines(wanted, ignored), _lines(got, ignored)
    missing, new = before - after, after - before
    told = []
    for text, lines in (("no line", missing), ("the line", new)):
        if lines:
            more = f" and {lines.total() - 1} more" if lines.total() > 1 else ""
            told.append(f"{text} {shown(next(iter(lines)))}{more}")
    return ", ".join(told) or None


def _lines(path: Path, ignored: Sequence[re.Pattern[str]]) -> Counter[str]:
    """Count the lines of a file. A line of which nothing remains does not count."""
    found: Counter[str] = Counter()
    for line in path.read_bytes().decode(errors="surrogateescape").splitlines():
        left = line
        for pattern in ignored:
            left = pattern.sub("", left)
        if left or not line:
            found[left] += 1
    return found


def file_difference(wanted: Path, got: Path) -> str | None:
    """Return one line about what differs, None if nothing does.

    Files of the same bytes are equal. Other files are equal if both hold tensors (safetensors, or `torch.save` with
    what `weights_only` loads), and all tensors have the same names, shapes, types and bits.
    """
    before, after = wanted.read_bytes(), got.read_bytes()
    if before == after:
        return None
    try:
        return next(_differences("", _loaded(wanted), _loaded(got)), None)
    except Exception:  # not of tensors, or not whole: any error of the libraries that read it
        place = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        if place is None:
            return f"{len(after)} bytes, wanted {len(before)}"
        return f"byte {place} of {len(after)} differs, wanted {len(before)} bytes"


def _loaded(path: Path) -> Any:
    """Return what is in a file. Raises an error if it is no file of tensors."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    if not zipfile.is_zipfile(path):
        raise ValueError("not written by torch.save")
    import torch  # here, so that a sweep without files of tensors needs none

    return torch.load(path, map_location="cpu", weights_only=True)


def _differences(name: str, before: Any, after: Any) -> Iterator[str]:
    """Yield one line for each difference of two values, with the keys that lead there. All bits of numbers count, so
    that 0.0 is not -0.0; so do the types of keys, because 1, 1.0 and True are equal keys."""
    import torch

    where = name or "the whole"
    if type(before) is not type(after):
        yield f"{where}: a {type(after).__name__}, wanted a {type(before).__name__}"
    elif isinstance(before, (Mapping, list, tuple)):
        one, other = _items(before), _items(after)
        yield from (f"no {name}[{key}]" for key in one if key not in other)
        yield from (f"{name}[{key}], which is not wanted" for key in other if key not in one)
        for key in one:
            if key in other:
                yield from _differences(f"{name}[{key}]", one[key], other[key])
    elif not isinstance(before, torch.Tensor):
        if _text(before) != _text(after):
            yield f"{where}: {after!r}, wanted {before!r}"
    elif (before.dtype, before.shape) != (after.dtype, after.shape):
        yield f"{where}: {after.dtype} of shape {tuple(after.shape)}, wanted {before.dtype} of {tuple(before.shape)}"
    elif (count := int((_bits(before) != _bits(after)).any(dim=1).sum())) > 0:
        yield f"{where}: {count} of {before.numel()} numbers have other bits"


def _text(value: Any) -> str:
    """``repr``; of a set in one order, because that of texts changes from process to process."""
    return repr(sorted(map(repr, value)) if isinstance(value, set) else value)


def _items(value: Any) -> dict[str, Any]:
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return {repr(key): each for key, each in pairs}


def _bits(tensor: Any) -> Any:
    """Return the bytes of a tensor, a row for each number."""
    import torch

    return tensor.contiguous().reshape(-1, 1).view(torch.uint8)


OUTPUT, ERRORS = "stdout", "stderr"

# A check by a command that takes longer is unknown (seconds).
CHECK_SECONDS = 300.0

# The statuses with which a shell says that it cannot start a command.
_NOT_STARTED = (126, 127)


class StaleResult(ValueError):
    """A file that the program has to write is there before the program runs. One line."""


class CheckMissing(ValueError):
    """A check that cannot be started in a healthy run. One line."""


@dataclass(frozen=True)
class Results:
    """What is checked after each run.

    ``command``: a shell's command line that ends with status 0 if the results are right; ``output``: whether the
    standard output is compared, without what ``ignored`` matches; ``files``: those to compare; ``healthy``: the folder
    of the healthy run, None in that run itself.
    """

    command: str = ""
    output: bool = False
    ignored: Sequence[re.Pattern[str]] = ()
    files: Sequence[Path] = ()
    healthy: Path | None = None

    @property
    def compares(self) -> bool:
        """Whether runs are compared with a healthy run."""
        return self.output or bool(self.files)

    @property
    def wanted(self) -> bool:
        """Whether anything is checked."""
        return bool(self.command) or self.compares

    def of(self, healthy: Path) -> Results:
        return replace(self, healthy=healthy)

    @contextmanager
    def printed_into(self, folder: Path) -> Iterator[dict[str, IO[bytes]]]:
        """Make the folder for results, and yield where the command prints, as arguments of `Popen`.

        If the block fails, none of the program's files stays in its place: the next run could not begin.

        Raises:
            StaleResult: a file that the run has to write is there already.
        """
        for path in self.files:
            if os.path.lexists(path):
                raise StaleResult(f"{path} is there before the run that has to write it: wanted no such file")
        place = folder / RESULTS
        place.mkdir()
        try:
            with (place / OUTPUT).open("ab") as output, (place / ERRORS).open("ab") as errors:
                yield {"stdout": output, "stderr": errors}
        except BaseException:
            self._take(folder)
            raise

    def end(self, folder: Path, returned: bool) -> tuple[str, str] | None:
        """Check the results, and move the program's files into the run's folder.

        Returns 'equal', 'wrong' or 'unknown' with the reason; None if the command failed, or nothing is checked.

        Raises:
            CheckMissing: the check of a healthy run cannot be started.
        """
        try:
            found = self._by_command(folder) if returned and self.command else None
        finally:
            missing = self._take(folder)
        if not returned or not self.wanted:
            return None
        if self.healthy is None:
            return ("wrong", "; ".join(missing)) if missing else found or ("equal", "all files are written")
        if differences := missing + self._differences(folder):
            return "wrong", f"{'; '.join(differences)}; wanted what the healthy run wrote"
        return found or ("equal", "output and files are those of the healthy run")

    def _by_command(self, folder: Path) -> tuple[str, str]:
        place = folder / RESULTS
        variables = {**os.environ, "FAULTS_OUTPUT": str(place / OUTPUT), "FAULTS_ERRORS": str(place / ERRORS)}
        status, said = _run(self.command, variables)
        if status is None:
            return "unknown", f"`{self.command}` did not end within {CHECK_SECONDS:g} s"
        if status in _NOT_STARTED and self.healthy is None:
            raise CheckMissing(f"the check `{self.command}` cannot be started: {said}")
        if status == 0:
            return "equal", f"`{self.command}` ended with status 0"
        return "wrong", f"`{self.command}` ended with status {status}: {said}; wanted 0"

    def _take(self, folder: Path) -> list[str]:
        """Move the program's files into the run's folder, and return one line for each that cannot be."""
        missing = []
        for number, path in enumerate(self.files):
            if path.is_symlink():
                missing.append(f"{path} leads to {path.resolve()}: wanted a file, such as that one")
                path.unlink()
            elif path.is_dir():
                missing.append(f"{path} is a folder: wanted a file")
            elif not path.is_file():
                missing.append(f"{path.absolute()} was not written")
            else:
                shutil.move(path, folder / RESULTS / _name(number, path))
        return missing

    def _differences(self, folder: Path) -> list[str]:
        """Return one line for each result that is not the healthy run's. A file that was not written has none."""
        assert self.healthy is not None
        healthy, own = self.healthy / RESULTS, folder / RESULTS
        found = []
        if self.output and (text := output_difference(healthy / OUTPUT, own / OUTPUT, self.ignored)):
            found.append(f"output: {text}")
        for number, path in enumerate(self.files):
            name = _name(number, path)
            if (own / name).exists() and (text := file_difference(healthy / name, own / name)):
                found.append(f"{path}: {text}")
        return found


UNCHECKED = Results()
# The most lines of what a program has printed that are shown of each stream.
LINES = 15


def printed(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the streams into which a program has printed, each with its last lines, of limited length. Of equal ones
    only the last, with their count; among errors also of those that differ only in numbers, such as a time."""
    for name, form in ((OUTPUT, str.strip), (ERRORS, _form)):
        with suppress(Unusable):  # a world's roles have logs instead
            lines = last_of(folder / RESULTS / name).decode(errors="replace").splitlines()
            forms = Counter(map(form, filter(str.strip, lines)))
            once = [(line, count) for line in reversed(lines) if (count := forms.pop(form(line), 0))][::-1]
            more = f", the last {LINES} of {len(once)} lines" if len(once) > LINES else ""
            if once:
                shown = [f"{line}{f'  ({count} such lines)' * (count > 1)}" for line, count in once[-LINES:]]
                yield f"{name}{more}", [one_line(each) for each in shown]


def _form(line: str) -> str:
    return re.sub(r"[0-9]+", "0", line.strip())


def _name(number: int, path: Path) -> str:
    """Return the name of a file in the run's folder: files of different folders may have the same name."""
    return f"{number}-{path.name}"


def _run(command: str, variables: dict[str, str]) -> tuple[int | None, str]:
    """Run a command that checks. Return its status, None if it takes too long, and the last line that it printed."""
    with (
        TemporaryFile() as said,  # a pipe would end with the last process that the command leaves
        subprocess.Popen(
            ["sh", "-c", command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            process.wait(CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    return process.returncode, lines[-1] if lines else "it printed nothing"
