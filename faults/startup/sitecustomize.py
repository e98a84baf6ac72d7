"""Start `autostart` in every process that has this folder on PYTHONPATH, because Python runs this file first."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_HERE = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _HERE]

# The `sitecustomize` that this one hides, if there is one.
_hidden = PathFinder.find_spec("sitecustomize", sys.path)
try:
    if _hidden is not None and _hidden.loader is not None:
        sys.modules[__name__] = module_from_spec(_hidden)
        _hidden.loader.exec_module(sys.modules[__name__])
finally:  # Python tells its error, and goes on
    # At the end, because it must not hide any module of the program.
    _ROOT = str(Path(__file__).parent.parent.parent)
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)

    from torch_rpc_reference_startup import start

    start()
