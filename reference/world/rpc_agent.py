"""Start the RPC agent of this process, without upstream's warnings, from options as plain data."""

from __future__ import annotations

import fcntl
import inspect
import ipaddress
import os
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc

from reference.outcome import WorldError
from reference.roles import Roles
from reference.system import host_names
from reference.system.processes import file_in_memory

VARIABLES = ("TP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")

_SIOCGIFADDR = 0x8915  # linux/sockios.h
_ADDRESS_AT = 20  # of the four bytes of an IPv4 address in struct ifreq


def listen_towards(master: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Tell TensorPipe and gloo the interface towards ``master``, each unless the user did.

    By default they listen on the address of the host's own name, which is often loopback. If no interface can be found,
    this leaves the default.
    """
    name = interface_towards(master)
    if name is not None:
        for variable in VARIABLES:
            environ.setdefault(variable, name)


def interface_towards(master: str) -> str | None:
    """The interface with the address from which this machine would talk to ``master``, or None.

    On the master's own machine that is the interface with the master's address. If the master's *name* means loopback
    here, the result is None, because other machines know it by another address (Debian's 127.0.1.1). Sends nothing; may
    ask the resolver.
    """
    source = source_towards(master)
    if source is None or (is_loopback(source) and master != "localhost" and not is_loopback(master)):
        return None
    return next((name for name, address in addresses() if address == source), "lo" if is_loopback(source) else None)


def source_towards(master: str) -> str | None:
    """The address from which this machine would talk to ``master``."""
    try:
        found = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)  # a datagram socket's connect sends nothing
    except (OSError, UnicodeError):  # UnicodeError: no network can have this name
        return None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def addresses() -> list[tuple[str, str]]:
    """(interface, address) pairs: of each interface the first IPv4 address, where torch listens, and all IPv6 ones."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # the interface has no IPv4 address
            found.append((name, socket.inet_ntoa(answer[_ADDRESS_AT : _ADDRESS_AT + 4])))
    return found + _addresses6()


def _addresses6() -> list[tuple[str, str]]:
    table = Path("/proc/self/net/if_inet6")
    if not table.exists():
        return []
    rows = [line.split() for line in table.read_text().splitlines()]
    return [(row[-1], str(ipaddress.IPv6Address(bytes.fromhex(row[0])))) for row in rows]


# Messages go through sockets. Large tensors are read from the sender's memory if the kernel lets sibling processes do
# that, and otherwise go through sockets, too. These options start in half the time of torch's default, which also fails
# with 64 roles; and they do not keep a core busy with waiting (docs/benchmarks.md).
LOCAL_OPTIONS: Mapping[str, Any] = {"_transports": ["uv"], "_channels": ["cma", "basic"]}


# The options of TENSORPIPE, as keyword arguments, without the rendezvous, which is the world's own.
KNOWN = [
    option
    for option in inspect.signature(rpc.TensorPipeRpcBackendOptions).parameters
    if option not in ("self", "init_method")
]


def chosen_options(roles: object, name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of role ``name``: `LOCAL_OPTIONS`, overridden by the roles' own, overridden by the caller's.

    With ``device_maps``, `LOCAL_OPTIONS` are left out, because device maps need channels for CUDA.

    Raises:
        WorldError: TENSORPIPE does not know an option.
    """
    own = {**roles.options, **roles.each.get(name, {})} if isinstance(roles, Roles) else {}
    together = {**own, **(options or {})}
    unknown = [repr(option) for option in together if option not in KNOWN]
    if unknown:
        raise WorldError(f"unknown RPC option {', '.join(unknown)}, wanted some of {', '.join(KNOWN)}")
    return together if "device_maps" in together else {**LOCAL_OPTIONS, **together}


def listen_on_loopback() -> None:
    """Let the agent and gloo listen on loopback only, because their requests are pickles, and so code."""
    os.environ["TP_SOCKET_IFNAME"] = os.environ["GLOO_SOCKET_IFNAME"] = "lo"


def silence_upstream() -> None:
    """Ignore upstream's warnings about upstream's own code, which no user can change (erratum 0.10)."""
    # init_rpc's use of ProcessGroupGloo (issue 149393)
    warnings.filterwarnings("ignore", message=r"(?s).*ProcessGroupGloo")
    # DistributedOptimizer's functional optimizers, on the owner of the parameters
    warnings.filterwarnings("ignore", message=r".?TorchScript.? support for functional optimizers")


def _group(original: Callable[..., Any], store: Any, rank: int, size: int) -> Any:
    """Make the process group of torch's start as torch does, but connect only the roles that exchange something, not
    each with each. Versions of torch that cannot do so have their own (`original`)."""
    gloo: Any = dist.ProcessGroupGloo
    names = os.environ.get("GLOO_SOCKET_IFNAME")
    options = gloo._Options()
    try:
        if names:
            options._devices = [gloo.create_device(interface=each, lazy_init=True) for each in names.split(",")]
        else:
            options._devices = [gloo.create_default_device(lazy_init=True)]
    except TypeError:
        return original(store, rank, size)
    options._timeout, options._threads = rpc.constants.DEFAULT_PROCESS_GROUP_TIMEOUT, 2 * len(options._devices)
    return gloo(store, rank, size, options)


# torch's own limit for a start: 24 days.
_NO_LIMIT = rpc.constants.DEFAULT_PROCESS_GROUP_TIMEOUT

# Seconds between two looks for the port of the first role, which is forked first: the others rarely have to wait.
_PAUSE = 0.002


# torch's store by libuv takes no socket of ours in 2.6, and does in 2.11.
_TAKES_A_SOCKET = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)


# The most roles whose agents ask the store in the first role for all names and addresses. Of n roles that is 2n²
# requests, with four switches between processes each. A file needs none, but whoever waits for it looks every 10 ms.
_FEW = 16


class Meeting:
    """Where a world's roles meet: a store in the first role's process, on loopback. Its port is in the file ``place``.
    A role that enters another network afterwards keeps its connection.

    A TCPStore that torch's start makes listens on all interfaces. The agents of more than `_FEW` roles find each other,
    and count themselves in the shutdown, in a file store in the first role's memory. Its path stands beside the port.
    """

    def __init__(self, place: Path, rank: int, size: int) -> None:
        self._place, self._rank, self._size, self._times = place, rank, size, 0
        listening = socket.create_server(("127.0.0.1", 0), backlog=socket.SOMAXCONN) if rank == 0 else None
        port, file = (listening.getsockname()[1], _file_in_memory()) if listening else _told_at(place)
        host: dict[str, Any] = {"is_master": True, "master_listen_fd": listening.detach()} if listening else {}
        host["use_libuv"] = _TAKES_A_SOCKET
        stores = cast(Any, dist)
        with host_names.from_file():  # torch asks for the name of what it connects to: a dead server would take 10 s
            self._store = stores.TCPStore("127.0.0.1", port, wait_for_workers=False, **host)
        if listening:
            place.write_text(f"{port} {file}")
        # -1: torch removes no file.
        self._of_agents = stores.FileStore(file, -1) if size > _FEW else self._store

    def init_method(self) -> str:
        """Let ``init_rpc`` find the store, once per process."""
        found = (self._of_agents, self._rank, self._size)
        cast(Any, dist).register_rendezvous_handler("world", lambda *_, **__: iter([found]))
        return self._place.as_uri().replace("file", "world", 1)

    def barrier(self) -> Meeting:
        """Stand for the process group of torch's start, of which only the barriers are needed if no role has device
        maps. Gloo's group looks every 10 ms at the end of each of its connections."""
        self._times += 1
        return self

    def wait(self) -> None:
        """Wait for all roles at this `barrier`."""
        self._store.wait([self._arrive(f"barrier {self._times}")], _NO_LIMIT)

    def leave(self) -> None:
        """Say that this role needs the store no more. The first role waits until all have said so."""
        all_left = self._arrive("left")
        if self._rank == 0:
            self._store.wait([all_left], _NO_LIMIT)

    def _arrive(self, where: str) -> str:
        """Count this role. When all have come, the store has the key that is returned."""
        if self._store.add(where, 1) == self._size:
            self._store.set(f"{where} all", "")
        return f"{where} all"


def _file_in_memory() -> str:
    """Make a file that no other user can open, and no disk or folder has. It lives as long as this process."""
    return f"/proc/{os.getpid()}/fd/{file_in_memory('names')}"


def _told_at(place: Path) -> tuple[int, str]:
    """Wait for what the first role writes: the port of its store, and the path of its file."""
    while True:
        with suppress(FileNotFoundError):
            if told := place.read_text():
                port, file = told.split()
                return int(port), file
        time.sleep(_PAUSE)


@contextmanager
def ready_for_many(meeting: Meeting | None = None) -> Iterator[None]:
    """Let torch's start take more than 64 roles: with fewer connections, of which no listener turns one away.

    At the start all roles connect to the first one at once. TensorPipe's queue has room for 128 connections, and a role
    opens several. The kernel tries one that found no room again after 1, 2, 4 s, or resets it.

    ``meeting``: that of a world in which no role has device maps. The roles do not ask each other for them then, which
    would take each role two messages for every role. They wait for each other at the meeting instead, without the GIL,
    so that a role hears of the death of another one; the agent's constructor waits with it.
    """
    api, registry = cast(Any, rpc.api), cast(Any, rpc.backend_registry)
    started, made = api._init_rpc_states, registry._init_process_group
    exchanged = registry._tensorpipe_exchange_and_check_all_device_maps
    groups: list[Any] = []  # that of the start in progress

    def grouped(*about: Any) -> Any:
        groups[:] = [meeting or _group(made, *about)]
        return groups[0]

    def lengthened(agent: object) -> None:
        started(agent)
        for each in filter(Path.is_socket, Path("/proc/self/fd").iterdir()):
            with suppress(OSError), socket.socket(fileno=os.dup(int(each.name))) as own:
                if own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    own.listen(socket.SOMAXCONN)
        while groups:  # at the first of torch's two calls
            groups.pop().barrier().wait()  # nobody connects before the first role's queue is longer

    def met(*about: Any) -> tuple[dict[str, Any], list[Any]]:
        about[-1].barrier().wait()
        return {}, []

    api._init_rpc_states, registry._init_process_group = lengthened, grouped
    if meeting is not None:
        registry._tensorpipe_exchange_and_check_all_device_maps = met
    try:
        yield
    finally:
        api._init_rpc_states, registry._init_process_group = started, made
        registry._tensorpipe_exchange_and_check_all_device_maps = exchanged


def start_agent(
    name: str,
    rank: int,
    world_size: int,
    init_method: str,
    options: Mapping[str, Any] | None = None,
    meeting: Meeting | None = None,
) -> None:
    """Call ``init_rpc`` without its deprecation warnings; ``options`` are the keyword arguments of TENSORPIPE's, and
    ``meeting`` is that of a world in which no role has device maps.

    Raises:
        TypeError: an option is unknown.
    """
    # Not by torch's own function for this, which drops device_maps silently.
    built = rpc.TensorPipeRpcBackendOptions(**{"init_method": init_method, **(options or {})})
    silence_upstream()
    with ready_for_many(meeting):
        rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=built)
