"""The defaults of every tutorial's case are the values of the published texts."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest

from reference import TUTORIALS, load
from reference.trace.case import CaseError
from reference.verify.verify import CASES, case_of, changes

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^(\w+) +(defaults|\w+=\w+) +(\d+) +(\d+) +[\d.]+ +bits equal in \d+ tensors +equal$", re.MULTILINE)


_CARTPOLE: dict[str, tuple[object, str]] = {
    "lr": (0.01, "S0 2.2, S2 CartPole: optim.Adam(…, lr=1e-2)"),
    "env": ("CartPole-v1", "S0 2.2, S2 CartPole: gym.make('CartPole-v1')"),
    "dropout": (0.6, "S0 2.1, S2 CartPole: nn.Dropout(p=0.6)"),
}
# Of each tutorial: fields of its case whose values a published text names, and where. "S0 2.3" is a text, by the short
# names of docs/errata.md, with its section and the listing in it. S3, a talk, names no numbers.
PUBLISHED: dict[str, dict[str, tuple[object, str]]] = {
    "rpc_basics": {
        "steps": (1, "S0 1: each call is made once"),
        "size": (3, "S0 1.2: rpc.remote(…, torch.randn, args=(3, 3))"),
    },
    "parameter_server": {
        "workers": (1, "S1 2: WORLD_SIZE = 2, one of them the server"),
        "batch_size": (5, "S1 2: torch.randn(5, 10)"),
        "inputs": (10, "S1 2: nn.Linear(10, 1)"),
        "outputs": (1, "S1 2: nn.Linear(10, 1)"),
        "lr": (0.01, "S1 2: optim.SGD(…, lr=0.01)"),
        "device": ("cpu", "S1 2: no model is moved"),
    },
    "batch_parameter_server": {
        "steps": (6, "S2 server: for _ in range(6)"),
        "trainers": (5, "S2 server: batch_update_size = 5"),
        "model": ("resnet50", "S2 server: torchvision.models.resnet50"),
        "batch_size": (20, "S2 server: batch_size = 20"),
        "image_w": (64, "S2 server: image_w = 64"),
        "image_h": (64, "S2 server: image_h = 64"),
        "num_classes": (30, "S2 server: num_classes = 30"),
        "lr": (0.001, "S2 server: optim.SGD(…, lr=0.001)"),
        "momentum": (0.9, "S2 server: optim.SGD(…, momentum=0.9)"),
    },
    "reinforce": {
        **_CARTPOLE,
        "steps": (100, "S0 2.3: for episode in range(100)"),
        "observers": (1, "S0 2.3: two processes, one of them the agent"),
    },
    "batch_reinforce": {
        **_CARTPOLE,
        "seed": (543, "S2 CartPole: --seed"),
        "steps": (10, "S2 CartPole: --num-episode"),
        "gamma": (1.0, "S2 CartPole: --gamma"),
    },
    "rnn": {
        "steps": (50, "S0 3.2: 10 epochs of 5 batches"),
        "batches": (5, "S0 3.2: for _ in range(5)"),
        "sequence": (5, "S0 3.2: torch.LongTensor(5, 3)"),
        "batch_size": (3, "S0 3.2: torch.LongTensor(5, 3)"),
        "ninp": (2, "S0 3.2: ninp=2"),
        "nhid": (3, "S0 3.2: nhid=3"),
        "nlayers": (4, "S0 3.2: nlayers=4"),
        "dropout": (0.5, "S0 3.1: dropout=0.5"),
        "lr": (0.05, "S0 3.2: DistributedOptimizer(optim.SGD, …, lr=0.05)"),
    },
    "pipeline": {
        "steps": (3, "S4 3: num_batches = 3"),
        "model": ("resnet50", "S4 1: ResNetShard1 and ResNetShard2"),
        "batch_size": (120, "S4 3: batch_size = 120"),
        "image_w": (128, "S4 3: image_w = 128"),
        "image_h": (128, "S4 3: image_h = 128"),
        "num_classes": (1000, "S4 1: num_classes = 1000"),
        "lr": (0.05, "S4 3: DistributedOptimizer(optim.SGD, …, lr=0.05)"),
        "rpc_threads": (128, "S4 4: num_worker_threads=128"),
        "transfer": ("cpu", "S4 1: return out.cpu()"),
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_defaults_are_the_published_values(name: str) -> None:
    """The `repr` is compared, because 1, 1.0 and True are equal but three defaults."""
    case = load(name).Case()
    wrong = {
        field: where for field, (value, where) in PUBLISHED[name].items() if repr(getattr(case, field)) != repr(value)
    }
    assert wrong == {}


# A case with none of these is one; with none of anything else there is nothing to train.
MAY_BE_NONE = {"seed", "lr", "dropout", "momentum", "staleness", "gamma"}
# These have no largest number, because they decide neither the number of roles nor the memory that one step needs.
ANY_NUMBER = {"steps", "batches", "lr", "momentum"}


@pytest.mark.parametrize("name", TUTORIALS)
def test_what_is_counted_or_measured_has_a_least_and_a_largest_number(name: str) -> None:
    numbers = [item for item in fields(load(name).Case) if item.metadata["type"] in (int, float)]
    assert {item.name for item in numbers if item.metadata["at_least"] <= 0} <= MAY_BE_NONE
    assert {item.name for item in numbers if item.metadata["at_most"] is None} <= ANY_NUMBER


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_field_scales_if_one_more_is_one_role_more(name: str) -> None:
    """Servers do not scale: torchrun's processes are as many as a program's author wants trainers."""
    tutorial = load(name)
    case = tutorial.Case()
    for item in fields(case):
        if item.metadata["type"] is int and item.name != "servers":
            with suppress(CaseError):
                more = tutorial.roles(replace(case, **{item.name: getattr(case, item.name) + 1}))
                assert (len(more) > len(tutorial.roles(case))) == item.metadata["scales"], item.name


def test_the_readmes_table_has_rows_that_verify_runs() -> None:
    found = ROW.findall((ROOT / "README.md").read_text())
    assert [name for name, *_ in found] == list(TUTORIALS)
    for name, changed, roles, steps in found:
        cases = {changes(case) or "defaults": case for case in (case_of(name, given) for given in CASES[name])}
        assert len(load(name).roles(cases[changed])) == int(roles), name
        assert cases[changed].steps == int(steps), name
