"""Where a grant stands at a time."""

from datetime import UTC, datetime, timedelta

import pytest

from quotas.domain.limits.input import GrantState, grant_state

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("begin", "end", "state"),
    [
        (None, None, GrantState.CANCELLED),
        (AT + HOUR, None, GrantState.COMING),
        (AT + HOUR, AT + 2 * HOUR, GrantState.COMING),
        (AT, None, GrantState.IN_FORCE),
        (AT - HOUR, AT + HOUR, GrantState.IN_FORCE),
        (AT - HOUR, AT, GrantState.OVER),
    ],
)
def test_a_grant_stands_by_its_range(
    begin: datetime | None, end: datetime | None, state: GrantState
) -> None:
    assert grant_state(begin, end, at=AT) is state
