"""A plugin of pytest that does without garbage collections until the tests are collected.

torch and the tests stay, so collections in between find nothing. They take a third of the time of torch's import, and
the end of Python takes as long again where objects are not frozen.
"""

from __future__ import annotations

import gc

gc.disable()


def pytest_collection_finish() -> None:
    """Exempt what is imported by now from garbage collections, which many tests ask for."""
    gc.collect()
    gc.freeze()
    gc.enable()
