"""The GPU of this machine, for the tests that need one."""

from __future__ import annotations

import subprocess

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")

# Options with which tensors of the first GPU go directly between the idle roles a and b. All idle roles have the same
# options; a map to itself is harmless.
MAPPED = {"device_maps": {"a": {0: 0}, "b": {0: 0}}}


def gpu_processes() -> set[int]:
    """Return the processes that have memory on a GPU."""
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    return {int(line) for line in listed.split()}
