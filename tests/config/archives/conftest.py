"""A month that is archived and not detached yet."""

from pathlib import Path

import pytest

from embedded.postgres import OWNER, EmbeddedPostgres
from tests.support.config.archives import archive, finish_month


@pytest.fixture
def archived_owner_url(
    world: None,  # noqa: ARG001 - Its organizations and usage.
    postgres: EmbeddedPostgres,
    committed_db: str,
    tmp_path: Path,
) -> str:
    """Archive a finished month, and return how the owner of its tables signs in."""
    finish_month()
    archive(tmp_path)
    return postgres.url(role=OWNER, database=committed_db)
