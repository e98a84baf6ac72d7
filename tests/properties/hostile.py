"""Hostile input as strategies: bytes and values that no writer of this project makes; and the form of an error."""

from __future__ import annotations

import copy
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from faults.plan import plan
from faults.strategies import plans
from reference.system.text import LINE

# Text that breaks readers: control sequences, halves of surrogate pairs, more digits than Python reads, deep nesting.
TOKENS = (
    *(b"\0", b"\x1b[31m", b"\\ud800", b"\\u0000", b"\xed\xa0\x80", b"\xff", "\u202e".encode(), "\u2028".encode()),
    *(b"9" * 5000, b"[" * 2000, b'{"a":' * 2000, b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"0", b"1e3"),
    *(b"null", b"true", b'""', b"{}", b"[]", b"\n", b"\r", b";", b"'", b'"', b"\\", b"=", b"..", b"/", b"@", b"#"),
)

SITES = {"shop:Till.pay": {"till1": 3, "till2": 3}, "shop:close": {"till1": 1}}
ROLES = ["shop", "till1", "till2"]


def is_one_line(text: str) -> bool:
    """Return whether a terminal shows ``text`` as one line of bounded length."""
    return text.isprintable() and len(text) <= LINE


@st.composite
def mutated(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> bytes:
    """Content in which some bytes are replaced, removed or repeated, or replaced by a token."""
    content = draw(contents)
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.sampled_from([0, 1, 1, 3, 20, len(content)])))
        twice = content[begin:end] * 2
        new = draw(st.sampled_from(TOKENS) | st.binary(max_size=4) | st.just(twice))
        content = content[:begin] + new + content[end:]
    return content


def _scalars() -> st.SearchStrategy[Any]:
    numbers = st.integers() | st.integers(-(10**400), 10**400) | st.floats() | st.sampled_from([10**4000, 2**63, -1, 0])
    words = st.text(max_size=8) | st.sampled_from(["\ud800", "\0", "\x1b[31m", "x" * 10_000, "..", "a/../b", "\n"])
    return st.none() | st.booleans() | numbers | words


def odd_values() -> st.SearchStrategy[Any]:
    """Any JSON."""
    keys = st.text(max_size=4) | st.just("kind")
    return st.recursive(
        _scalars(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=5
    )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place in a JSON value: its container, and its key or index."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield value, key
        yield from _places(each)


@st.composite
def changed(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """A JSON value in which some values are changed, removed or new."""
    value = copy.deepcopy(draw(values))
    for _ in range(draw(st.integers(0, 3))):
        places = list(_places(value))
        if not places:
            return draw(odd_values())
        holder, key = draw(st.sampled_from(places))
        way = draw(st.sampled_from(["other", "other", "gone", "new"]))
        if way == "gone":
            del holder[key]
        elif way == "new" and isinstance(holder, dict):
            holder[draw(st.text(max_size=6))] = draw(odd_values())
        else:
            holder[key] = draw(odd_values())
    return value


def documents(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """JSON of changed values, and its mutated bytes."""
    healthy = values.map(lambda value: json.dumps(value).encode())
    return mutated(healthy) | changed(values).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))


def healthy_plans() -> st.SearchStrategy[plan.Plan]:
    return plans(SITES, ROLES, places=["call", "message", "process"])


def texts(contents: st.SearchStrategy[bytes]) -> st.SearchStrategy[str]:
    """Words of a command line as Python reads them: bytes that are no text become halves of surrogate pairs."""
    return contents.map(lambda content: content.decode("utf-8", "surrogateescape"))


def trace_file(header: Mapping[str, Any] | bytes, data: bytes = b"") -> bytes:
    """A safetensors file of this header, whatever it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def size_of(dtype: str, shape: Sequence[int]) -> int:
    """The bytes of a tensor."""
    bits = {"F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "F16": 16, "BF16": 16, "F4": 4}.get(dtype, 8)
    return bits * math.prod(shape) // 8


def one_tensor(name: str = "0000/x", dtype: str = "F32", shape: tuple[int, ...] = (1,), **header: str) -> bytes:
    """A trace file of one tensor of zeros; ``header``: further entries of its header, by default of `rpc_basics`."""
    size = size_of(dtype, shape)
    said = {"tutorial": "rpc_basics", "case": "{}", **header}
    place = {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]}
    return trace_file({"__metadata__": said, name: place}, bytes(size))
