"""The handover file: where a running stack's servers are, for its owner only."""

from pathlib import Path

import pytest

from embedded.handover import (
    discard_handover,
    read_handover,
    write_handover,
    write_owner_url,
)


def test_what_was_written_is_read_and_only_its_owner_may(tmp_path: Path) -> None:
    write_handover(tmp_path, {"REDIS_URL": "redis://127.0.0.1:1/0"})

    assert read_handover(tmp_path) == {"REDIS_URL": "redis://127.0.0.1:1/0"}
    assert (tmp_path / "environment.json").stat().st_mode & 0o777 == 0o600


def test_how_the_owner_signs_in_is_a_file_of_its_own(tmp_path: Path) -> None:
    write_owner_url(tmp_path, "postgresql://owner:x@127.0.0.1:1/gpu_ledger")

    path = tmp_path / "database_owner_url"
    assert path.read_text() == "postgresql://owner:x@127.0.0.1:1/gpu_ledger\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_handover(tmp_path) == {}


def test_a_stopped_stack_hands_nothing_over(tmp_path: Path) -> None:
    write_handover(tmp_path, {"PORT": "1"})
    write_owner_url(tmp_path, "postgresql:///gpu_ledger")

    discard_handover(tmp_path)
    discard_handover(tmp_path)

    assert read_handover(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_broken_file_hands_nothing_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "environment.json").write_text(text)

    assert read_handover(tmp_path) == {}
