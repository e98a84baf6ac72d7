"""Names of hosts are found without a server, and afterwards as before."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest

from reference.system import host_names


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        (
            "passwd: files\nhosts:\tfiles dns [!UNAVAIL=return] myhostname # as it was\n",
            b"files dns [!UNAVAIL=return] myhostname",
        ),
        ("passwd: files\n", b"files dns"),
        (None, b"files dns"),
    ],
)
def test_afterwards_the_machines_order_holds(
    text: str | None, usual: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, orders = tmp_path / "nsswitch.conf", list[tuple[bytes, bytes]]()
    if text is not None:
        place.write_text(text)
    library = SimpleNamespace(__nss_configure_lookup=lambda *order: orders.append(order))
    monkeypatch.setattr(host_names, "ORDER", place)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    with host_names.from_file():
        assert orders == [(b"hosts", b"files")]
    assert orders[1:] == [(b"hosts", usual)]


def test_another_c_library_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    with host_names.from_file():
        pass
