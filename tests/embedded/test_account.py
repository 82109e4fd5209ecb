"""The account servers run as: reachable state and programs, whatever the modes above them."""

import os
from pathlib import Path

import pytest

from embedded.account import (
    MOVED_TO,
    ServerAccount,
    fallback_folder,
    reachable_binaries,
    server_account,
    state_folder,
)

needs_root = os.geteuid() == 0


@pytest.fixture
def closed(state: Path) -> Path:
    """Give a folder below a home that is closed to everybody else."""
    home = state / "home"
    home.mkdir(mode=0o700)
    return home / "checkout" / "var" / "postgres"


def test_root_hands_servers_to_nobody_and_others_keep_them() -> None:
    account = server_account()

    assert (account.uid is not None) is needs_root
    assert (account.popen_identity() != {}) is needs_root


def test_servers_see_neither_our_home_nor_our_variables() -> None:
    given = server_account().popen_arguments()

    assert given["env"] == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
    }
    assert given["cwd"] == "/"


def test_reachable_state_stays_where_it_is_wanted(state: Path) -> None:
    folder = state_folder(server_account(), state / "postgres")

    assert folder == state / "postgres"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not (folder / MOVED_TO).exists()


def test_state_below_a_closed_home_moves_and_leaves_its_address(closed: Path) -> None:
    account = server_account()

    folder = state_folder(account, closed)

    if needs_root:
        assert folder == fallback_folder(closed)
        assert (closed / MOVED_TO).read_text() == f"{folder}\n"
    else:
        assert folder == closed
    assert account.reaches(folder)
    assert state_folder(account, closed) == folder


def test_moved_state_stays_moved_when_the_home_is_opened(closed: Path, state: Path) -> None:
    account = server_account()
    moved = state_folder(account, closed)

    (state / "home").chmod(0o755)

    assert state_folder(account, closed) == moved


def test_a_fallback_folder_of_somebody_else_is_refused(state: Path) -> None:
    wanted = state / "postgres"
    wanted.mkdir()
    (wanted / MOVED_TO).write_text("elsewhere\n")
    planted = fallback_folder(wanted)
    planted.symlink_to(state)

    with pytest.raises(PermissionError, match="belongs to another user"):
        state_folder(server_account(), wanted)

    planted.unlink()


def test_two_checkouts_never_share_a_fallback_folder(tmp_path: Path) -> None:
    assert fallback_folder(tmp_path / "a" / "var") != fallback_folder(tmp_path / "b" / "var")


def test_programs_that_cannot_be_reached_are_copied_once(state: Path) -> None:
    programs = state / "home" / "wheel"
    (programs / "bin").mkdir(parents=True)
    program = programs / "bin" / "server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    (state / "home").chmod(0o700)
    account = server_account()
    place = state_folder(account, state / "postgres")

    found = reachable_binaries(account, programs, program="bin/server", state=place)

    assert account.reaches(found / "bin" / "server")
    assert (found == programs) is not needs_root
    assert reachable_binaries(account, programs, program="bin/server", state=place) == found


def test_the_callers_own_account_needs_no_change() -> None:
    assert ServerAccount().popen_identity() == {}
