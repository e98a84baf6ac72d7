"""Draw a line plot into a file. Only this file imports matplotlib, and only when something is drawn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from reference.system.atomic_file import whole

SUFFIXES = (".png", ".svg", ".pdf")


def drawable(path: str | os.PathLike[str]) -> bool:
    """Whether the file's name ends with one of `SUFFIXES`."""
    return Path(path).suffix in SUFFIXES


def draw(
    path: str | os.PathLike[str],
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    title: str = "",
) -> None:
    """Draw one line per entry through its points (x, y), in their order; the x axis has only whole numbers.

    The file is written whole or not at all.

    Raises:
        OSError: the file cannot be written.
        ValueError: the name does not end with one of `SUFFIXES`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not drawable(path):
        raise ValueError(f"{path}: wanted a name that ends with {' or '.join(SUFFIXES)}")
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)  # opens no window, whatever the user's settings say
    axes = figure.add_subplot()
    for name, points in lines.items():
        axes.plot([a for a, _ in points], [b for _, b in points], marker="o", label=name)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(lines) > 1:
        axes.legend()
    with whole(path) as scratch:
        figure.savefig(scratch)
