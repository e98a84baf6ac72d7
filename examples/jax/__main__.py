"""Answer a case of any tutorial in JAX: ``python examples/jax CASE_DIR OUT_DIR`` runs the case's tutorial.

    pip install jax
    python -m reference conform run suite --out results -- python examples/jax

It imports nothing of this package. Without JAX it skips every case.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def skipped_because(case: dict[str, Any]) -> str | None:
    if importlib.util.find_spec("jax") is None:
        return "JAX is not installed"
    return f"no model {case['model']}" if case.get("model") not in (None, "mlp", "convnet") else None


def answer(given: Path, answers: Path) -> dict[str, str]:
    """Write the trace; returns the content of result.json."""
    described = json.loads((given / "case.json").read_text())
    reason = skipped_because(described["case"])
    if reason:
        return {"status": "skipped", "reason": reason}
    import jax

    jax.config.update("jax_enable_x64", True)  # otherwise float64 and int64 are read as 32 bits
    jax.config.update("jax_platforms", "cpu")  # an accelerator may multiply float32 with fewer bits
    from safetensors.flax import load_file, save_file

    trace = import_module(described["tutorial"]).train(described["case"], load_file(given / "input.safetensors"))
    save_file({name: jax.numpy.asarray(array) for name, array in trace.items()}, answers / "trace.safetensors")
    return {"status": "done"}


if __name__ == "__main__":
    result = answer(*map(Path, sys.argv[1:]))
    Path(sys.argv[2], "result.json").write_text(json.dumps(result))
