"""Delay and drop RPC's own messages, by the faulty agent that torch has for its tests.

Only this file uses that private interface (`torch.distributed.rpc._testing`). The agent works at the sender, and knows
the ten requests of `fields.MESSAGES`. It does not report what it did: `faults.judge.proof` says what proves it.
"""

from __future__ import annotations

import enum
import importlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api

from faults.plan.places import PlanError
from faults.plan.plan import Plan

_api: Any = api  # untyped, because one of its private functions is replaced below

# The size of the segment that TensorPipe makes to test whether it can have shared memory (bytes).
_SEGMENT = 1 << 20


@contextmanager
def without_shared_memory() -> Iterator[None]:
    """Make an agent that starts within the block use TCP. While it starts, no thread of this process can make a file
    larger than 1 MiB."""
    start = _api._set_and_start_rpc_agent
    _api._set_and_start_rpc_agent = small_files_only()(start)
    try:
        yield
    finally:
        _api._set_and_start_rpc_agent = start


@contextmanager
def small_files_only() -> Iterator[None]:
    """Within the block, let neither this process nor what it starts make a file as large as shared memory.

    Python ignores the signal for too large a file; the writer gets an error.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lower = _SEGMENT - 1 if soft == resource.RLIM_INFINITY else min(soft, _SEGMENT - 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


BACKEND = "FAULTY_TENSORPIPE"


def missing() -> str | None:
    """Say why there is no faulty agent here, or return None. Import no further module, and so change nothing."""
    if not hasattr(torch._C, "_faulty_agent_init"):
        return f"torch {torch.__version__} was built without its faulty agent (torch.distributed.rpc._testing)"
    return None


def backend_for(plan: Plan, role: str, backend: Any, options: Any, world_size: int | None) -> tuple[Any, Any]:
    """Return what `rpc.init_rpc` gets instead of ``backend`` and ``options``, in any role of the plan.

    Without faults of messages they stay as they are. With any, every role gets the faulty agent, even if no fault names
    it: TENSORPIPE begins with a collective in which the faulty agent does not take part.

    Raises:
        PlanError: this torch has no faulty agent; or the program uses another backend, no ``world_size``, or options
            that this agent cannot have.
    """
    faults = plan.at("message")
    if not faults:
        return backend, options
    if (reason := missing()) is not None:
        raise PlanError(f"the plan has faults of messages: {reason}")
    _check(backend, options, world_size)
    testing: Any = importlib.import_module("torch.distributed.rpc._testing")
    own = [fault for fault in faults.values() if fault.role in (None, role)]
    given = options if options is not None else rpc.TensorPipeRpcBackendOptions()
    chosen = testing.FaultyTensorPipeRpcBackendOptions(
        num_worker_threads=given.num_worker_threads,
        rpc_timeout=given.rpc_timeout,
        init_method=given.init_method,
        messages_to_fail=list(dict.fromkeys(str(fault.message) for fault in own if fault.kind == "Drop")),
        messages_to_delay={str(fault.message): float(fault.seconds or 0) for fault in own if fault.kind == "Delay"},
        num_fail_sends=max((fault.times or 0 for fault in own), default=0),
    )
    # Look it up now, because the import has replaced this enumeration, and `rpc.BackendType` is the old one.
    return rpc.backend_registry.BackendType[BACKEND], chosen


def _check(backend: Any, options: Any, world_size: int | None) -> None:
    if backend is not None and not (isinstance(backend, enum.Enum) and backend.name == "TENSORPIPE"):
        raise PlanError(f"faults of messages need the backend TENSORPIPE, got {backend!r}")
    if not world_size:  # roles join when they like
        raise PlanError(f"faults of messages: the faulty agent needs a world_size, got {world_size}")
    if options is not None and not isinstance(options, rpc.TensorPipeRpcBackendOptions):
        raise PlanError(f"faults of messages need TensorPipeRpcBackendOptions, got {type(options).__name__}")
    if options is not None and (options.device_maps or options.devices):
        raise PlanError("faults of messages: the faulty agent cannot have 'device_maps' or 'devices'")
