"""Checkpoints: all that was saved comes back, what is torn or of another run is refused, and no kill hurts one."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn, optim

from reference.system import moments
from reference.system.files import Unusable
from reference.trace import checkpoint
from reference.trace.checkpoint import Checkpoints, _Own, due, resume, save
from tests.support.disk import files_of
from tests.support.saving import ROLES, RUN, STEPS, Growing, Kept, Role, die_while_saving, play


@pytest.fixture(autouse=True)
def _no_role_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.trace.checkpoint._own", None)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # which takes long, and nobody pulls the plug


def saved(folder: Path, until: int = STEPS, **how: Any) -> Checkpoints:
    """Let three roles save their steps in a new folder."""
    shared = Checkpoints(folder, ROLES, RUN, **how).chosen()
    play(shared, until)
    return shared


def goes_on(folder: Path) -> Checkpoints:
    """Begin another life. Each role must have the state of the step from which it goes on."""
    shared = Checkpoints(folder, ROLES, RUN, resume=True).chosen()
    play(shared, shared.start)
    return shared


def alone(folder: Path, **how: Any) -> Checkpoints:
    """Play the only role of a run."""
    shared = Checkpoints(folder, ["a"], resume=True, **how).chosen()
    shared("a")
    return shared


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def names_of(shared: Checkpoints, *steps: int) -> list[str]:
    """All files of a run whose valid steps are of one life."""
    parts = [shared.part(step, shared.life, role) for step in steps for role in ROLES]
    sums = [part.with_suffix(".sha256") for part in parts]
    grown = [shared.grown(shared.life, role) for role in ROLES]
    return sorted([path.name for path in (*parts, *sums, *grown)] + [f"{step:08d}.json" for step in steps])


# What is told


def test_each_moment_of_a_checkpoint_is_told_before_the_next_change_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, list[str]]] = []

    def look(what: str, step: int) -> None:
        files = [path for path in tmp_path.iterdir() if path.stat().st_size]
        seen.append((what, step, sorted("scratch" * path.name.startswith(".") + path.suffix for path in files)))

    monkeypatch.setattr(moments, "of_checkpoint", [look])
    alone(tmp_path)
    save(7, value=torch.ones(1))
    assert seen == [
        ("writing", 7, ["scratch.safetensors"]),
        ("written", 7, [".safetensors", ".sha256"]),
        ("valid", 7, [".json", ".safetensors", ".sha256"]),
    ]


def test_a_role_that_did_not_save_last_is_told_of_a_valid_step_at_its_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    shared = Checkpoints(tmp_path, ("a", "b")).chosen()
    a, b = _Own(shared, "a"), _Own(shared, "b")
    monkeypatch.setattr(moments, "of_checkpoint", [lambda *told: seen.append(told)])
    for own, step, valid in ((a, 1, []), (b, 1, [1]), (a, 2, [1]), (b, 2, [2])):
        seen.clear()
        own.save(step, {})
        assert [number for what, number in seen if what == "valid"] == valid


# What is saved


class Learner:
    """``draw``: of its initial parameters."""

    def __init__(self, draw: int, optimizer: Callable[..., optim.Optimizer]) -> None:
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        for parameter in self.model.parameters():
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(draw))
        self.optimizer = optimizer(self.model.parameters())
        self.owners: dict[str, Any] = {"model": self.model, "optimizer": self.optimizer}

    def train(self, *steps: int) -> list[torch.Tensor]:
        for step in steps:
            self.optimizer.zero_grad()
            self.model(torch.arange(12.0).reshape(4, 3).cos() + step).square().sum().backward()
            self.optimizer.step()
        return [*self.model.state_dict().values()]


@pytest.mark.parametrize(
    "optimizer",
    [partial(optim.SGD, lr=0.01, momentum=0.9), partial(optim.Adam, lr=0.1, amsgrad=True)],
    ids=["sgd", "adam"],
)
def test_training_goes_on_with_all_bits(optimizer: Callable[..., optim.Optimizer], tmp_path: Path) -> None:
    alone(tmp_path)
    hurt, fresh = Learner(1, optimizer), Learner(2, optimizer)
    hurt.train(0, 1, 2)
    save(3, **hurt.owners)
    alone(tmp_path)
    assert resume(**fresh.owners) == 3
    assert all(map(torch.equal, fresh.train(3, 4), Learner(1, optimizer).train(0, 1, 2, 3, 4)))


def test_every_value_that_a_state_may_have_comes_back(tmp_path: Path) -> None:
    odd = torch.tensor([float("nan"), -0.0, 1e-40], dtype=torch.bfloat16)
    tensors = [odd, torch.ones(2, 3).t(), torch.tensor(2**62), torch.empty(0, 2, dtype=torch.bool)]
    plain = [1, 2.5, -0.0, 2**70, float("inf"), None, True, "é\n", {7: {}, "7": [[]], "tensor": "a", "map": []}]
    alike = {"a/b": torch.tensor(1), "a": {"b": torch.tensor(2)}, 0: torch.tensor(3), "0": torch.tensor(4)}
    whole = torch.arange(4)
    grown, seen, own = Growing({"x": whole[:2]}), Kept(), torch.tensor([1.0, 2.0], requires_grad=True)
    alone(tmp_path)
    save(1, kept=Kept([plain, tensors, alike]), grown=grown, own=own)
    grown.content |= {"y": whole[1:], "z": whole}
    save(2, kept=Kept([plain, tensors, alike]), grown=grown, own=own)
    alone(tmp_path)
    own.detach().zero_()
    assert resume(kept=seen, grown=grown, own=own) == 2
    assert (seen.content[0], str(seen.content[0][2])) == (plain, "-0.0")
    for got, wanted in zip(seen.content[1], tensors, strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert got.flatten().view(torch.uint8).tolist() == wanted.flatten().view(torch.uint8).tolist()
    assert [seen.content[2]["a/b"], seen.content[2]["a"]["b"], seen.content[2][0], seen.content[2]["0"]] == [1, 2, 3, 4]
    assert {name: each.tolist() for name, each in grown.content.items()} == {
        "x": [0, 1],
        "y": [1, 2, 3],
        "z": [0, 1, 2, 3],
    }
    assert own.tolist() == [1.0, 2.0]


def test_a_value_that_no_state_may_have_is_refused_by_name(tmp_path: Path) -> None:
    alone(tmp_path)
    save(1, kept=Kept({"a": [1]}))
    with pytest.raises(TypeError, match=r"^kept/a/1 is a set, wanted tensors, numbers, texts, lists and mappings$"):
        save(2, kept=Kept({"a": [1, {2}]}))
    with pytest.raises(TypeError, match=r"^kept/a has a key that is a tuple, wanted a number or a text$"):
        save(2, kept=Kept({"a": {(0, 1): 2}}))
    assert alone(tmp_path).start == 1


def test_a_run_may_be_described_by_what_json_changes(tmp_path: Path) -> None:
    for start in (0, 1):
        assert alone(tmp_path, run={"shape": (3, 3), "rates": {1: 0.5}}).start == start
        save(1, kept=Kept({}))


def test_only_steps_that_are_due_are_saved(tmp_path: Path) -> None:
    assert not due(2)
    save(2, value=torch.zeros(1))
    shared = alone(tmp_path, every=2)
    for step in range(1, 6):
        save(step, value=torch.zeros(1))
    assert (due(2), due(3)) == (True, False)
    assert shared.steps() == [4, 2]


def test_a_step_is_valid_once_all_roles_have_saved_it(tmp_path: Path) -> None:
    shared = Checkpoints(tmp_path, ROLES, RUN).chosen()
    for name, steps in (("a", 3), ("b", 2), ("c", 1)):
        assert shared.steps() == []
        role = Role(shared, name)
        for _ in range(steps):
            role.go_on()
    assert shared.steps() == [1]
    assert goes_on(tmp_path).start == 1


def test_a_role_far_ahead_forgets_steps_whose_parts_are_removed(tmp_path: Path) -> None:
    shared = Checkpoints(tmp_path, ROLES, RUN).chosen()
    owns = []
    for name, steps in (("a", 4), ("b", 3), ("c", 3)):
        role = Role(shared, name)
        owns.append(checkpoint._own)
        for _ in range(steps):
            role.go_on()
    ahead = owns[0]
    assert ahead is not None
    assert ahead.saved == [1, 2, 3, 4]
    ahead.save(5, {"value": torch.zeros(1)})
    assert ahead.saved == [4, 5]


def test_what_the_last_two_valid_steps_do_not_need_is_removed_and_what_others_have_written_is_not(
    tmp_path: Path,
) -> None:
    other = {"schema": 1, "life": "0" * 8, "roles": ["a"], "run": {}}
    strange = ["00000001.json", "00000001.00000000.a.safetensors", "00000001.00000000.a.sha256", "00000000.a.grown"]
    strange += ["notes", ".0123.json", "1.00000000.a.sha256", "00000009.json.bak"]
    tmp_path.joinpath(strange[0]).write_text(json.dumps(other))
    saved(tmp_path / "run", 5)
    for name in strange:
        (tmp_path / "run" / name).write_text(json.dumps(other))
    shared = Checkpoints(tmp_path / "run", ROLES, RUN, resume=True).chosen()
    dead = ["00000006.11111111.a.safetensors", "11111111.a.grown", f".{'0' * 16}.json"]
    assert shared.start == 5
    for name in dead:
        (tmp_path / "run" / name).touch()
    shared = goes_on(tmp_path / "run")
    play(shared, 7)
    assert names(tmp_path / "run") == sorted([*names_of(shared, 6, 7), *strange])


# What cannot be used


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def with_field(name: str, value: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))

    return change


SUM = r"torn, its SHA-256 is not that of its \.sha256"
TORN = r"torn before byte [0-9]+, wanted [0-9]+ whole ones"
# The file, what becomes of it, and what is said.
DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "part changed": ("*3.*.b.safetensors", changed, SUM),
    "part missing": ("*3.*.b.safetensors", Path.unlink, "No such file or directory"),
    "sum missing": ("*3.*.b.sha256", Path.unlink, "No such file or directory"),
    "sum empty": ("*3.*.b.sha256", empty, SUM),
    "grown changed": ("????????.b.grown", changed, TORN),
    "manifest empty": ("*3.json", empty, "its content must be a JSON object, got "),
    "no life": ("*3.json", with_field("life", 1), "'life' cannot be 1"),
    "unknown life": ("*3.json", with_field("life", "0" * 8), "No such file"),
    "schema": ("*3.json", with_field("schema", 2), "schema is 2, wanted 1"),
    "roles": ("*3.json", with_field("roles", ["a"]), r"roles is \['a'\], wanted \['a', 'b', 'c'\]"),
    "case": ("*3.json", with_field("run", {"rows": 3}), "rows is 3, wanted 2"),
    "no case": ("*3.json", with_field("run", {}), "rows is None, wanted 2"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_checkpoint_that_cannot_be_used_is_named_and_the_one_before_is_used(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pattern, damage, said = DAMAGES[name]
    saved(tmp_path)
    (found,) = tmp_path.glob(pattern)
    damage(found)
    shared = goes_on(tmp_path)
    assert shared.start == 2
    (text,) = {record.getMessage() for record in caplog.records}
    named = r"\S+" if name == "unknown life" else re.escape(str(found)).replace("sha256", r"\w+")
    assert re.fullmatch(f"a checkpoint is not used: {named}: .*{said}.*", text), text
    play(shared, 4)
    assert goes_on(tmp_path).start == 4


def test_without_a_checkpoint_that_can_be_used_there_is_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    saved(tmp_path)
    before = names(tmp_path)
    other = Checkpoints(tmp_path, ROLES, {"rows": 3}, resume=True)
    why = r"000003\.json: rows is 2, wanted 3; \S+02\.json: rows is 2, wanted 3$"
    with pytest.raises(Unusable, match=rf"^{tmp_path}: no checkpoint can be used: \S+{why}"):
        other.chosen()
    with pytest.raises(
        Unusable, match=rf"^{tmp_path}: has checkpoints up to step 3, wanted a new folder, or to resume"
    ):
        Checkpoints(tmp_path, ROLES, RUN).chosen()
    assert names(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(Unusable, match=rf"^{tmp_path}/file: is no folder, wanted one for checkpoints$"):
        Checkpoints(tmp_path / "file", ROLES).chosen()


@pytest.mark.parametrize("owner", [torch.zeros(3), torch.zeros(1, dtype=torch.float64)])
def test_a_tensor_of_another_shape_or_dtype_is_refused(owner: torch.Tensor, tmp_path: Path) -> None:
    alone(tmp_path)
    save(1, value=torch.ones(1))
    alone(tmp_path)
    wanted = rf"value is torch.float32 of shape \(1,\), wanted {owner.dtype} of shape \({len(owner)},\)$"
    with pytest.raises(Unusable, match=wanted):
        resume(value=owner)
    save(2, value=Kept({}))
    alone(tmp_path)
    with pytest.raises(Unusable, match="value is no tensor, wanted torch"):
        resume(value=owner)


def test_steps_between_checkpoints_are_counted_from_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^every is a number of steps, at least 1, got 0$"):
        Checkpoints(tmp_path, ["a"], every=0)


def test_the_folder_may_be_a_text(tmp_path: Path) -> None:
    folder: Any = str(tmp_path)
    assert Checkpoints(folder, ["a"]) == Checkpoints(tmp_path, ["a"])
    assert Checkpoints(folder, ["a"]).chosen().start == 0


def test_other_owners_are_refused_with_the_names_of_both(tmp_path: Path) -> None:
    saved(tmp_path)
    Checkpoints(tmp_path, ROLES, RUN, resume=True).chosen()("a")
    with pytest.raises(Unusable, match=r"\.a\.safetensors: has notes, trace, value, wanted model, value$"):
        resume(value=torch.zeros(4), model=nn.Linear(1, 1))


# A disk that is full, and deaths


@pytest.mark.parametrize("sync", range(5))
def test_a_full_disk_costs_only_that_checkpoint_if_it_is_optional(
    sync: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What grows, the part, its sum, the manifest, the folder: one of them has no room."""

    numbers = itertools.count()

    def full(handle: int) -> None:
        if next(numbers) == 5 + sync:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    shared, grown = alone(tmp_path, optional=True), Growing({})
    for step in (1, 2, 3):
        grown.content[str(step)] = torch.tensor(step)
        save(step, value=torch.tensor([step]), grown=grown)
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"no checkpoint of step 2: {tmp_path}")
    assert message.endswith(": No space left on device")
    assert shared.steps() == ([3, 2] if sync >= 3 else [3, 1])
    value = torch.zeros(1, dtype=torch.int64)
    assert alone(tmp_path).start == resume(value=value, grown=grown) == value.item() == 3
    assert grown.content == {"1": 1, "2": 2, "3": 3}


def test_a_life_goes_on_from_optional_checkpoints_although_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path)
    monkeypatch.setattr("reference.system.files.ROOM", 2**60)
    with pytest.raises(Unusable, match=rf"^{tmp_path}: "):
        Checkpoints(tmp_path, ROLES, RUN, resume=True).chosen()
    assert Checkpoints(tmp_path, ROLES, RUN, resume=True, optional=True).chosen().start


def test_what_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For instance another user's. The rest is removed all the same."""
    stays, goes = (tmp_path / f".{digit * 16}.json" for digit in "01")
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path in (stays, tmp_path / "00000001.json") and path.exists():
            raise OSError(errno.EROFS, "Read-only file system")
        unlink(path, missing_ok)

    stays.touch()
    goes.touch()
    monkeypatch.setattr(Path, "unlink", refuse)
    shared = alone(tmp_path)
    for step in (1, 2, 3, 4):
        save(step, value=torch.zeros(1))
    assert shared.steps() == [4, 3, 1]
    assert stays.exists()
    assert not goes.exists()


def test_a_full_disk_ends_the_role_in_one_line_otherwise(tmp_path: Path) -> None:
    alone(tmp_path)
    save(1, value=torch.zeros(1))
    for owner in ({"value": torch.zeros(9000)}, {"grown": Growing({"x": torch.zeros(9000)})}):
        with files_of(20_000), pytest.raises(Unusable, match=rf"^{tmp_path}\S*: .*File too large.*$"):
            save(2, **owner)
    assert alone(tmp_path).start == 1


def test_whenever_the_roles_die_a_valid_step_is_whole(tmp_path: Path, forkserver: None) -> None:
    """They die before each call in turn that makes, writes, replaces, removes or syncs a file."""
    ends = list(
        itertools.takewhile(lambda end: end, (end_of_saving(tmp_path / str(n), n, 0) for n in itertools.count(1)))
    )
    assert set(ends) == {-signal.SIGKILL}
    assert len(ends) > 90


def test_a_file_that_ends_anywhere_hurts_no_valid_step(tmp_path: Path, forkserver: None) -> None:
    """The kernel ends the process when a file has so many bytes: parts, and what grows."""
    sizes = [*range(1, 370, 23)]
    ends = [end_of_saving(tmp_path / str(size), 0, size) for size in sizes]
    assert set(ends) == {-signal.SIGXFSZ}


def end_of_saving(folder: Path, call: int, size: int) -> int:
    """Let all roles die, and go on to the end in another life. Returns the exit code of the first one."""
    folder.mkdir()
    said = folder / "said"
    process = get_context("forkserver").Process(target=die_while_saving, args=(folder / "run", said, call, size))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL, -signal.SIGXFSZ)
    done = len(said.read_text()) if said.exists() else 0
    shared = goes_on(folder / "run")
    assert shared.start in (done, done + 1)
    play(shared, shared.start + 2)
    assert names(folder / "run") == names_of(shared, shared.start + 1, shared.start + 2)
    return process.exitcode
