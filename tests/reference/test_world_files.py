"""The files of a world's folder: a role has used it only if it has left both its log and its stacks."""

from __future__ import annotations

from pathlib import Path

from reference.system.files import log_of, roles_of, stacks_of


def test_a_role_has_left_both_its_files(tmp_path: Path) -> None:
    for file in (log_of(tmp_path, "ps"), stacks_of(tmp_path, "ps"), log_of(tmp_path, "a"), stacks_of(tmp_path, "b")):
        file.touch()
    assert roles_of(tmp_path) == {"ps"}


def test_folders_of_these_names_are_no_roles(tmp_path: Path) -> None:
    log_of(tmp_path, "ps").mkdir()
    stacks_of(tmp_path, "ps").mkdir()
    assert roles_of(tmp_path) == set()
