"""CUDA tensors over RPC: torch calls RRefs and distributed autograd with them unsupported. What works is measured here.

Roles ``a`` and ``b`` share the first GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from reference.world import World, launch
from tests.support import roles_cuda as plays
from tests.support.answers import answer
from tests.support.gpu import MAPPED, gpu_processes, needs_gpu
from tests.support.processes import left_after

pytestmark = needs_gpu

MAPS: Mapping[str, Mapping[str, Any]] = {"none": {}, "to b": {"device_maps": {"b": {0: 0}}}, "both": MAPPED}
REFUSED = "TensorPipe RPC backend only supports CPU tensors by default, please move your tensors to CPU"
REQUEST, RESPONSE = (f"{way} device mapping is not available for destination" for way in ("Request", "Response"))


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world with these device maps. When it has ended, no role of it has memory on the GPU."""
    with launch(["a", "b"], deadline=600, options=MAPS[request.param] or None) as started:
        yield started
    pids = set(started.pids.values())
    assert left_after(pids, 10) == set()
    assert not pids & gpu_processes()


def mapped(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", names, indirect=True)


def attempt(world: World, way: Callable[..., object], *of: object) -> tuple[Any, str]:
    """Let ``a`` attempt it with ``b``."""
    found: tuple[Any, str] = world.call("a", answer, way, "b", *of).short
    return found


WAYS = [
    (plays.sends, REQUEST),
    (plays.gets_scripted, REQUEST),
    (plays.gets, RESPONSE),
    (plays.fetches, RESPONSE),
    (plays.shares, RESPONSE),
    (plays.gets_parameter, RESPONSE),
    (plays.gets_later, RESPONSE),
    (plays.goes_on, RESPONSE),
]


@mapped("none")
@pytest.mark.parametrize(("way", "refused"), WAYS)
def test_without_a_device_map_each_way_is_refused(world: World, way: Callable[[str], object], refused: str) -> None:
    text, error = attempt(world, way)
    assert error == "RuntimeError"
    assert REFUSED in text
    assert refused in text


@mapped("both")
@pytest.mark.parametrize("way", [way for way, _ in WAYS if way is not plays.goes_on])
def test_with_a_device_map_each_way_brings_the_tensor_to_the_gpu(world: World, way: Callable[[str], object]) -> None:
    assert attempt(world, way) == ("cuda:0", "str")


@mapped("both")
def test_with_a_device_map_a_callback_gets_the_tensor(world: World) -> None:
    assert attempt(world, plays.goes_on) == ([0.0, 2.0, 4.0], "list")


@mapped("to b")
def test_a_callers_map_serves_the_answer_but_no_call_back(world: World) -> None:
    assert attempt(world, plays.gets) == ("cuda:0", "str")
    text, error = attempt(world, plays.shares)
    assert error == "RuntimeError"
    assert RESPONSE in text


@pytest.mark.parametrize(("world", "kind"), [("none", "tuple"), ("both", "Tensor")], indirect=["world"])
def test_a_remote_module_on_a_gpu_answers_a_tuple_without_a_device_map(world: World, kind: str) -> None:
    assert attempt(world, plays.uses_remote_module) == (kind, "str")


@pytest.mark.parametrize(("world", "bring_back"), [("none", True), ("both", False), ("both", True)], indirect=["world"])
def test_distributed_autograd_on_gpus_has_the_bits_of_one_process(world: World, bring_back: bool) -> None:
    """Layers on the GPU of each role, 20 backward passes and steps of the distributed optimizer."""
    assert attempt(world, plays.trains, bring_back) == (0, "int")
