"""Limits are reported as a person reads them."""

import pytest

from quotas.domain.limits.selectors import format_in_force, format_limit


@pytest.mark.parametrize(
    ("units", "further", "reported"),
    [
        (8, {}, "8 Large"),
        (0, {}, "0 Large"),
        (None, {}, "unlimited Large"),
        (8, {"model_group": "H100", "burst_units": 2}, "8 Large, H100 only, +2 burst"),
        (
            8,
            {"model_group": "H100", "cluster": "hopper", "burst_units": 2},
            "8 Large, H100 only, on hopper, +2 burst",
        ),
    ],
)
def test_a_limit_is_reported_in_one_line(
    units: int | None, further: dict[str, object], reported: str
) -> None:
    assert format_limit(units, size="large", **further) == reported  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("units", "granted", "is_suspended", "reported"),
    [
        (8, 0, False, "8"),
        (8, 4, False, "12 (+4 granted)"),
        (8, -3, False, "5 (-3 granted)"),
        (8, -9, False, "0 (-9 granted)"),
        (None, 4, False, "unlimited"),
        (8, 4, True, "suspended"),
        (None, 0, True, "suspended"),
    ],
)
def test_what_binds_now_is_reported_where_it_is_not_what_was_set(
    *, units: int | None, granted: int, is_suspended: bool, reported: str
) -> None:
    assert format_in_force(units, granted_units=granted, is_suspended=is_suspended) == reported
