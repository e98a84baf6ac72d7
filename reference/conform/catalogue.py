"""The cases of the suite. An id is permanent: a changed case gets a new id, and the old id is never used again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

# The version of the whole suite (year and month), and of the protocol between it and an implementation.
SUITE, PROTOCOL = "2026.11", 1

_EXACT = {"arithmetic": "exact"}
_IMAGES = {"image_w": 8, "image_h": 6, "num_classes": 5}  # not square, so that (w, h) and (h, w) differ
_MLP = {"model": "mlp", **_IMAGES}


@dataclass(frozen=True)
class Entry:
    """One case of the suite. ``core``: it is in the core suite, too, which is small and takes seconds."""

    id: str
    fields: Mapping[str, Any]
    core: bool = True

    @property
    def tutorial(self) -> str:
        return self.id.rpartition("-")[0]


CATALOGUE = (
    Entry("rpc_basics-001", {"steps": 2}),
    Entry("rref_dataflow-001", {"steps": 2, "side": 128}),
    Entry("dist_autograd-001", {"contexts": 3, "steps": 3, **_EXACT}),
    Entry("dist_autograd-002", {}),
    Entry("parameter_server-001", {"steps": 4, **_EXACT}),
    Entry("parameter_server-002", {"steps": 3, "workers": 3, "outputs": 2, **_EXACT}),
    Entry("parameter_server-003", {"steps": 8, "workers": 3, "staleness": 0}),
    Entry("parameter_server-004", {"steps": 20, "outputs": 3}),
    Entry("batch_parameter_server-001", {**_IMAGES, **_EXACT}),
    Entry("batch_parameter_server-002", {"steps": 4, "trainers": 3, "batch_size": 4, "lr": 0.05, **_MLP}),
    Entry("batch_parameter_server-003", {"steps": 4, "trainers": 3, "batch_size": 4, **_MLP, "model": "convnet"}),
    Entry("sharded_parameter_server-001", {"servers": 3, **_IMAGES, **_EXACT}),
    Entry("sharded_parameter_server-002", {"steps": 4, "servers": 2, **_MLP, "model": "convnet"}),
    Entry("reinforce-001", {"observers": 2, "steps": 3, "dtype": "float64"}),
    Entry("reinforce-002", {"observers": 3, "steps": 2, "dropout": 0.0, "seed": 1}),
    Entry("batch_reinforce-001", {"observers": 3, "steps": 2, "n_steps": 40, "gamma": 0.9, "dtype": "float64"}),
    Entry("batch_reinforce-002", {"observers": 2, "steps": 2, "n_steps": 30, "batch": False}),
    Entry("rnn-001", {"steps": 7, "ninp": 4, "nhid": 6, "nlayers": 2, "dropout": 0.0, "lr": 1.0, "dtype": "float64"}),
    Entry("rnn-002", {"steps": 7, "ninp": 4, "nhid": 6, "nlayers": 3}),
    Entry("pipeline-001", {**_IMAGES, **_EXACT}),
    Entry("pipeline-002", {"steps": 3, "batch_size": 10, **_MLP}),  # micro-batches of 3, 3, 2 and 2 images
    Entry("hybrid_ddp-001", {"rows": 20, **_EXACT}),
    Entry("hybrid_ddp-002", {"steps": 4, "rows": 20, "trainers": 3}),
    Entry("batch_parameter_server-101", {"steps": 2, "trainers": 2, "batch_size": 8}, core=False),
    Entry("sharded_parameter_server-101", {"steps": 2, "trainers": 2}, core=False),
    Entry("pipeline-101", {"steps": 1, "num_split": 3, "batch_size": 8, "image_w": 64, "image_h": 48}, core=False),
    Entry("rnn-101", {}, core=False),
    Entry("hybrid_ddp-101", {"trainers": 5}, core=False),
)


def chosen(suite: str, pattern: str = "*") -> list[Entry]:
    """The entries of the core or the full suite whose id matches ``pattern``."""
    return [entry for entry in CATALOGUE if (entry.core or suite == "full") and fnmatchcase(entry.id, pattern)]
