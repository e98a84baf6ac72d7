"""Python runs this at the start of every process that has this folder on PYTHONPATH: see `faults.script`."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_HERE = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _HERE]

# The one that this one hides, if there is any.
_hidden = PathFinder.find_spec("sitecustomize", sys.path)
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(sys.modules[__name__])

import faults.autostart  # noqa: E402, F401
