"""Which units and which times can be a grant."""

from datetime import UTC, datetime, timedelta

import pytest

from quotas.domain.limits.input import GRANT_HORIZON, grant_units_problems, span_problems

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("units", [1, -1, 1_000_000, -1_000_000])
def test_signed_units_can_be_granted(units: int) -> None:
    assert grant_units_problems(units) == ()


@pytest.mark.parametrize("units", [0, 1_000_001, -1_000_001, 1.5, 8.0, "8", True, None])
def test_what_is_no_number_of_units_is_reported(units: object) -> None:
    (problem,) = grant_units_problems(units, field="lent")

    assert (problem.field, problem.code) == ("lent", "grant_units_invalid")


@pytest.mark.parametrize(
    ("begin", "end", "reported"),
    [
        (AT, None, []),
        (AT, AT + SECOND, []),
        (AT + GRANT_HORIZON - SECOND, AT + GRANT_HORIZON, []),
        (AT - SECOND, None, [("valid_from", "begin_past")]),
        (AT, AT, [("valid_until", "end_past")]),
        (AT + 2 * SECOND, AT + SECOND, [("valid_until", "end_before_begin")]),
        (AT + GRANT_HORIZON + SECOND, None, [("valid_from", "time_too_far")]),
        (AT, AT + GRANT_HORIZON + SECOND, [("valid_until", "time_too_far")]),
        (
            AT - SECOND,
            AT - 2 * SECOND,
            [("valid_from", "begin_past"), ("valid_until", "end_past")],
        ),
    ],
)
def test_every_time_that_cannot_be_used_is_reported(
    begin: datetime, end: datetime | None, reported: list[tuple[str, str]]
) -> None:
    found = span_problems(begin, end, at=AT)

    assert [(problem.field, problem.code) for problem in found] == reported
