"""Checkpoints of a world: each role writes its part of a step aside; when all parts are there, the step is valid.

    checkpoints = Checkpoints(folder, [*roles], resume=True)
    launch(roles, checkpoints=checkpoints, restarts=3)

    start = resume(model=model, optimizer=optimizer)    # in each role, once RPC is up
    save(step + 1, model=model, optimizer=optimizer)    # in each role, after each step

What is saved is what decides the future of the run. For each step S and role R of one life L the folder holds
``S.L.R.safetensors`` and ``S.L.R.sha256``, as the command sha256sum writes it; ``L.R.grown`` has what only grows, such
as the trace so far. ``S.json`` makes the step valid. The last two valid steps stay.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed.rpc as rpc
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save_file
from safetensors.torch import save as as_bytes

from reference.system import moments
from reference.system.files import Unusable, check_room, content_of, whole
from reference.system.json_objects import integer, many, mapping, read_object, text
from reference.system.text import shown
from reference.trace.case import Case

SCHEMA = 1
KEPT = 2  # valid steps; of two, one is whole whatever happens to the other
MISSING = "no checkpoint of step"  # so begins a role's warning

_PART = re.compile(r"(?:(?P<step>[0-9]{8,})\.)?(?P<life>[0-9a-f]{8})\.[^.]+\.(?:safetensors|sha256|grown)")
# The names of `whole`, and those of safetensors, which writes into a file of its own.
_SCRATCH = re.compile(r"\.[0-9a-f]{16}\.(?:safetensors|sha256|json)|\.tmp[A-Za-z0-9]{6}")

logger = logging.getLogger(__name__)


class Stateful(Protocol):
    """What modules, optimizers and recorders are: their state is a mapping of tensors, numbers, texts, None, and lists
    and mappings of these. If it has an attribute ``grows`` that is true, its tensors never change once they are there.
    """

    def state_dict(self) -> Mapping[str, Any]: ...
    def load_state_dict(self, state_dict: Any) -> Any: ...


Owner = Stateful | torch.Tensor


@dataclass(frozen=True)
class Checkpoints:
    """Where the roles of a world save their state, and from where they go on. Plain data, which `launch` sends to them.

    Args:
        folder: one folder for all roles; on several machines a shared one.
        roles: all roles, in rank order. Each saves its own part.
        run: what decides the result, as JSON values by name. A checkpoint of another run is not used.
        every: steps from one checkpoint to the next.
        resume: go on from the last valid step, if there is one. Otherwise the folder must not have any.
        optional: go on without a checkpoint if one cannot be written, for instance on a full disk; the log says so.
        life: the name of this life, and ``start`` the step from which it goes on; see `chosen`.

    Raises:
        ValueError: ``every`` is less than 1.
    """

    folder: Path
    roles: Sequence[str]
    run: Mapping[str, Any] = field(default_factory=dict)
    every: int = 1
    resume: bool = False
    optional: bool = False
    life: str = ""
    start: int = 0

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every is a number of steps, at least 1, got {self.every!r}")
        object.__setattr__(self, "folder", Path(self.folder))  # programs name it by a text, too

    @classmethod
    def of_case(cls, folder: str | os.PathLike[str], case: Case, roles: Sequence[str], **how: Any) -> Checkpoints:
        """Make those of a tutorial's case. ``how``: the other arguments."""
        return cls(Path(folder), roles, {"tutorial": case.tutorial(), **case.deciding()}, **how)

    def __call__(self, role: str) -> None:
        """Prepare this process, which plays ``role``: ``launch(before=)`` and ``run_rank(before=)`` call it.

        Raises: as `chosen`.
        """
        global _own
        _own = _Own(self if self.life or role != self.roles[0] else self.chosen(), role)

    def chosen(self) -> Checkpoints:
        """Choose the step from which a new life goes on: the last valid one. Warns of each that cannot be used.

        One process chooses for all, before they start: the launching one, or the first role, which the others ask. What
        this returns chooses the next life, too, which always resumes.

        Raises:
            Unusable: the folder cannot be used, or has checkpoints that cannot be used or were not asked for.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self.optional:
                check_room(self.folder)
        except FileExistsError as error:
            raise Unusable(self.folder, "is no folder, wanted one for checkpoints") from error
        except OSError as error:
            raise Unusable(self.folder, error) from error
        steps, start, reasons = self.steps(), 0, list[str]()
        if steps and not self.resume:
            raise Unusable(self.folder, f"has checkpoints up to step {steps[0]}, wanted a new folder, or to resume")
        for step in steps:
            try:
                self.check(step)
            except OSError as error:
                reasons.append(str(error))
            else:
                start = step
                break
        if reasons and not start:
            raise Unusable(self.folder, f"no checkpoint can be used: {'; '.join(reasons)}")
        for reason in reasons:
            logger.warning("a checkpoint is not used: %s", reason)
        replace(self, life="").tidy()
        return replace(self, life=secrets.token_hex(4), start=start, resume=True)

    def steps(self) -> list[int]:
        """Return the steps that were made valid, last to first, by this run or another one."""
        names = (path.name.removesuffix(".json") for path in self.folder.glob("*.json"))
        return sorted((int(name) for name in names if name.isascii() and name.isdecimal()), reverse=True)

    def check(self, step: int) -> None:
        """Raises Unusable unless a valid step is of this run, and whole."""
        life = self.life_of(step)
        for role in self.roles:
            part = self.part(step, life, role)
            wanted = content_of(part.with_suffix(".sha256"), 1000).split()[:1]
            if [_digest(part).encode()] != wanted:
                raise Unusable(part, "torn, its SHA-256 is not that of its .sha256")
            with safe_open(part, framework="pt") as file:
                _grown(self.grown(life, role), int(file.metadata()["grown"]))

    def life_of(self, step: int) -> str:
        """Read which life made a step valid. Raises Unusable: it is of another run or schema."""
        path = self.folder / f"{step:08d}.json"
        found = read_object(path, {"schema": integer, "life": text, "roles": many(text), "run": mapping})
        wanted = {"schema": SCHEMA, "roles": list(self.roles), **json.loads(json.dumps(dict(self.run)))}
        own = {"schema": found["schema"], "roles": found["roles"], **found["run"]}
        for name in wanted | own:
            if own.get(name) != wanted.get(name):
                raise Unusable(path, f"{name} is {shown(own.get(name))}, wanted {shown(wanted.get(name))}")
        return str(found["life"])

    def part(self, step: int, life: str, role: str) -> Path:
        """The file of one role's state after a step."""
        return self.folder / f"{step:08d}.{life}.{role.replace(':', '=')}.safetensors"

    def grown(self, life: str, role: str) -> Path:
        """The file of what has grown in one role's life."""
        return self.folder / f"{life}.{role.replace(':', '=')}.grown"

    def make_valid(self, step: int) -> bool:
        """Make a step of this life valid if all its parts are there. The last role to save does, and any may again."""
        if not all(self.part(step, self.life, role).with_suffix(".sha256").exists() for role in self.roles):
            return False
        content = {"schema": SCHEMA, "life": self.life, "roles": list(self.roles), "run": dict(self.run)}
        with whole(self.folder / f"{step:08d}.json") as scratch:
            scratch.write_text(json.dumps(content))
            _sync(scratch)
        _sync(self.folder)
        moments.tell(moments.of_checkpoint, "valid", step)
        self.tidy()
        return True

    def tidy(self) -> None:
        """Remove what the last valid steps and this life do not need. What another run made valid stays; so does
        what cannot be removed: a folder of optional checkpoints may be one that can only be read."""
        needed: dict[int, str] = {}
        strange: set[int] = set()
        for step in self.steps():
            try:
                life = self.life_of(step)
            except Unusable:
                strange.add(step)
                continue
            if len(needed) < KEPT:
                needed[step] = life
            else:
                with suppress(OSError):
                    (self.folder / f"{step:08d}.json").unlink(missing_ok=True)  # before its parts
        oldest = min(needed) if len(needed) == KEPT else 0
        paths = list(self.folder.iterdir())
        parts = [found for path in paths if (found := _PART.fullmatch(path.name)) and found["step"]]
        lives = {*needed.values(), *(found["life"] for found in parts if int(found["step"]) in strange)}
        for path in paths:
            if _SCRATCH.fullmatch(path.name):
                unneeded = not self.life and path.is_file()
            elif (found := _PART.fullmatch(path.name)) is None:
                unneeded = False
            elif found["life"] == self.life:
                unneeded = found["step"] is not None and int(found["step"]) < oldest
            elif found["step"] is None:
                unneeded = found["life"] not in lives
            else:
                unneeded = int(found["step"]) not in strange and needed.get(int(found["step"])) != found["life"]
            if unneeded:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


class _Own:
    """One role's side."""

    def __init__(self, shared: Checkpoints, role: str) -> None:
        self.shared, self.role = shared, role
        self.saved: list[int] = []  # by this role, and not valid yet as far as it knows
        self.grown: Counter[str] = Counter()  # how many tensors of an owner this life has written
        self.length = 0

    def join(self) -> None:
        """Ask the first role for its choice, unless this role knows it."""
        if not self.shared.life:
            life, start = rpc.rpc_sync(self.shared.roles[0], _choice)
            self.shared = replace(self.shared, life=life, start=start)

    def restore(self, owners: Mapping[str, Owner]) -> None:
        shared = self.shared
        life = shared.life_of(shared.start)
        part = shared.part(shared.start, life, self.role)
        state = _read(part, shared.grown(life, self.role))
        if state.keys() != owners.keys():
            raise Unusable(part, f"has {', '.join(sorted(state))}, wanted {', '.join(sorted(owners))}")
        for name, owner in owners.items():
            saved = state[name]
            if isinstance(owner, torch.Tensor) and _form(saved) != _form(owner):  # torch would broadcast, or round
                raise Unusable(part, f"{name} is {_form(saved)}, wanted {_form(owner)}")
        for name, owner in owners.items():
            if isinstance(owner, torch.Tensor):
                owner.detach().copy_(state[name])
            else:
                owner.load_state_dict(state[name])

    def save(self, step: int, owners: Mapping[str, Owner]) -> None:
        shared, state, new = self.shared, dict[str, Any](), dict[str, torch.Tensor]()
        grown = {name for name, owner in owners.items() if getattr(owner, "grows", False)}
        for name, owner in owners.items():
            state[name] = owner if isinstance(owner, torch.Tensor) else owner.state_dict()
        for name in grown:
            new |= {f"{name}/{key}": each for key, each in islice(state[name].items(), self.grown[name], None)}
        self.length = _append(shared.grown(shared.life, self.role), self.length, new)
        for name in grown:
            self.grown[name], state[name] = len(state[name]), None
        on_writing = partial(moments.tell, moments.of_checkpoint, "writing", step)
        _write(shared.part(step, shared.life, self.role), state, self.length, on_writing)
        moments.tell(moments.of_checkpoint, "written", step)
        self.saved.append(step)
        self.saved = [each for each in self.saved if not shared.make_valid(each) and self.has(each)]

    def has(self, step: int) -> bool:
        """Whether this life's part of a step is there: a later step that became valid may have removed it."""
        return self.shared.part(step, self.shared.life, self.role).exists()


def _form(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else "no tensor"


# This process's role.
_own: _Own | None = None


def _choice() -> tuple[str, int]:
    """Runs on the first role: which life this is, and the step from which it goes on."""
    assert _own is not None, "the first role has no checkpoints"
    return _own.shared.life, _own.shared.start


def due(step: int) -> bool:
    """Whether `save` saves after ``step`` steps. It never does without checkpoints, and `resume` does nothing then."""
    return _own is not None and step % _own.shared.every == 0


def resume(**owners: Owner) -> int:
    """Give each of ``owners``, all that decide this role's future, its saved state. RPC must be up.

    Returns the steps that were done then, 0 at the beginning: the number of the first step to do.

    Raises:
        Unusable: this role's part cannot be read, or has other owners, or an owner is a tensor of another shape or
            dtype.
    """
    if _own is None:
        return 0
    _own.join()
    if _own.shared.start:
        _own.restore(owners)
    return _own.shared.start


def save(step: int, **owners: Owner) -> None:
    """Save the state of ``owners`` after ``step`` steps, if a checkpoint is due. Each role does it once per step.

    Raises:
        OSError: it cannot be written, and checkpoints are not optional.
        TypeError: a state holds something else than a state may.
    """
    if _own is None or not due(step):
        return
    _own.join()
    try:
        _own.save(step, owners)
    except OSError as error:
        named = error if isinstance(error, Unusable) else Unusable(error.filename or _own.shared.folder, error)
        if not _own.shared.optional:
            raise named from error.__cause__
        logger.warning("%s %d: %s", MISSING, step, named)


# --- The files of one role -------------------------------------------------------------------------------------------


def _write(part: Path, state: Mapping[str, Any], grown: int, on_writing: Callable[[], None]) -> None:
    """Write tensors, and in the header everything else. ``grown``: how much of the other file belongs to it (bytes);
    ``on_writing``: called when the content is there, and the name is not."""
    tensors: dict[str, torch.Tensor] = {}
    header = {"state": json.dumps(_plain(state, "", tensors)), "grown": str(grown)}
    places = set[int]()
    for name, tensor in tensors.items():
        if (place := tensor.untyped_storage().data_ptr()) in places:
            tensors[name] = _copy(tensor)
        places.add(place)
    with whole(part) as scratch, ThreadPoolExecutor(1) as pool:
        try:
            save_file(tensors, scratch, metadata=header)
        except SafetensorError as error:  # safetensors raises it for an error of the system
            raise Unusable(part, error) from error
        on_writing()
        digest = pool.submit(_digest, scratch)  # it takes as long as the disk does
        _sync(scratch)
        digest.result()
    with whole(part.with_suffix(".sha256")) as scratch:
        scratch.write_text(f"{digest.result()}  {part.name}\n")
        _sync(scratch)


def _read(part: Path, grown: Path) -> dict[str, Any]:
    """Read what `_write` and `_append` have written. What has grown has the value None in the part."""
    try:
        with safe_open(part, framework="pt") as file:
            header = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state: dict[str, Any] = _unplain(json.loads(header["state"]), tensors)
        more = _grown(grown, int(header["grown"]))
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise Unusable(part, error) from error
    for name in [name for name, each in state.items() if each is None]:
        state[name] = {key.removeprefix(f"{name}/"): each for key, each in more.items() if key.startswith(f"{name}/")}
    return state


def _append(path: Path, length: int, tensors: Mapping[str, torch.Tensor]) -> int:
    """Write tensors after the first ``length`` bytes, as safetensors with its length and SHA-256; return the end."""
    if not tensors:
        return length
    content = as_bytes({name: _copy(tensor) for name, tensor in tensors.items()})  # views of one have no place there
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    with os.fdopen(handle, "wb") as file:
        file.truncate(length)  # what an attempt that failed has left
        file.seek(length)
        file.writelines((len(content).to_bytes(8, "little"), hashlib.sha256(content).digest(), content))
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _grown(path: Path, length: int) -> dict[str, torch.Tensor]:
    """Read the first ``length`` bytes. Raises Unusable: they are not whole."""
    tensors: dict[str, torch.Tensor] = {}
    if not length:
        return tensors
    try:
        with path.open("rb") as file:
            while file.tell() < length:
                size, digest = int.from_bytes(file.read(8), "little"), file.read(32)
                content = file.read(min(size, length))
                if hashlib.sha256(content).digest() != digest:
                    raise Unusable(path, f"torn before byte {file.tell()}, wanted {length} whole ones")
                tensors |= load(content)
    except OSError as error:
        raise error if isinstance(error, Unusable) else Unusable(path, error) from error
    return tensors


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """safetensors takes no tensors that share memory, as tied parameters do."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


_SCALARS = (type(None), bool, int, float, str)


def _plain(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Turn a state into JSON values, with its tensors in ``tensors`` by their path."""
    if isinstance(value, torch.Tensor):
        while path in tensors:  # {"a/b": …, "a": {"b": …}}
            path += "'"
        tensors[path] = value.detach().cpu().contiguous()
        return {"tensor": path}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, _SCALARS):
                raise TypeError(f"{path} has a key that is a {type(key).__name__}, wanted a number or a text")
        versions = getattr(value, "_metadata", None)  # of the classes of a module's parts; loading it asks for them
        content = [[key, _plain(each, f"{path}/{key}".lstrip("/"), tensors)] for key, each in value.items()]
        return {"map": content, **({} if versions is None else {"versions": versions})}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{path}/{index}", tensors) for index, each in enumerate(value)]
    if type(value) in _SCALARS:
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, wanted tensors, numbers, texts, lists and mappings")


def _unplain(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_unplain(each, tensors) for each in value]
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        found = OrderedDict((key, _unplain(each, tensors)) for key, each in value["map"])
        if "versions" in value:
            vars(found)["_metadata"] = value["versions"]
        return found
    return value


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Unusable(path, error) from error


def _sync(path: Path) -> None:
    """Let the disk have a file or a folder before what refers to it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
