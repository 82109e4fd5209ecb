"""Rules of scheduled exports: when a month is due, how a file is called, what a failure means."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.exports.schedules import (
    ATTEMPTS_MAX,
    CONTENTS,
    MONTHS_BACK_MAX,
    WAITS,
    content_label,
    content_of,
    due_at,
    due_months,
    remedy_of,
    wait_after,
)
from billing.domain.period import Month

OCTOBER = Month(2026, 10)
DAYS = st.integers(1, 28)
HOURS = st.integers(0, 23)
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 6 * 365 * 24).map(lambda hours: BEGIN + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("month", "day", "hour", "expected"),
    [
        (Month(2026, 10), 2, 6, datetime(2026, 11, 2, 6, tzinfo=UTC)),
        (Month(2026, 12), 28, 23, datetime(2027, 1, 28, 23, tzinfo=UTC)),
        (Month(2027, 1), 28, 0, datetime(2027, 2, 28, tzinfo=UTC)),
    ],
)
def test_a_month_is_exported_in_the_one_after_it(
    month: Month, day: int, hour: int, expected: datetime
) -> None:
    assert due_at(month, day=day, hour=hour) == expected


@given(day=DAYS, hour=HOURS, since=MOMENTS, days=st.integers(0, 300))
def test_no_month_is_missed_and_none_is_due_before_its_time(
    day: int, hour: int, since: datetime, days: int
) -> None:
    at = since + timedelta(days=days)

    found = due_months(day=day, hour=hour, since=since, at=at)

    times = [due_at(month, day=day, hour=hour) for month in found]
    assert times == sorted(times)
    assert all(since <= moment <= at for moment in times)
    if found:
        assert due_at(found[-1].shift(1), day=day, hour=hour) > at
        assert due_at(found[0].shift(-1), day=day, hour=hour) < since
    else:
        assert days <= 31


def test_a_service_that_was_away_for_years_exports_a_year() -> None:
    since, at = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC)

    found = due_months(day=2, hour=6, since=since, at=at)

    assert len(found) == MONTHS_BACK_MAX
    assert found[-1] == OCTOBER


@pytest.mark.parametrize(
    ("text", "organization", "number", "name"),
    [
        ("month", "", 1, "gpu-ledger-2026-10.zip"),
        ("month", "acme", 1, "gpu-ledger-acme-2026-10.zip"),
        ("month", "acme", 3, "gpu-ledger-acme-2026-10-run3.zip"),
        ("lines", "", 1, "lines-2026-10.csv"),
        ("charges", "acme", 2, "acme-charges-2026-10-run2.jsonl"),
        ("focus-1.2-CostAndUsage-csv", "", 1, "focus-1.2-CostAndUsage-2026-10.csv"),
        (
            "focus-1.4-BillingPeriod-parquet",
            "acme",
            1,
            "acme-focus-1.4-BillingPeriod-2026-10.parquet",
        ),
    ],
)
def test_a_file_is_called_by_content_month_and_run(
    text: str, organization: str, number: int, name: str
) -> None:
    content = content_of(text, month=OCTOBER, organization=organization, number=number)

    assert content.file_name == name


@pytest.mark.parametrize("number", [1, 2])
def test_no_two_contents_have_one_name_or_label(number: int) -> None:
    names = {
        content_of(text, month=OCTOBER, organization="acme", number=number).file_name
        for text in CONTENTS
    }

    assert len(names) == len(CONTENTS)
    assert len({content_label(text) for text in CONTENTS}) == len(CONTENTS)


def test_labels_are_for_people() -> None:
    assert content_label("journal") == "Journal, CSV"
    assert content_label("charges") == "Charges, JSONL"
    assert content_label("focus-1.4-InvoiceDetail-parquet") == "FOCUS 1.4 InvoiceDetail, Parquet"


def test_attempts_end_after_a_day() -> None:
    waits = [wait_after(attempt) for attempt in range(1, ATTEMPTS_MAX + 1)]

    assert waits == [*WAITS, None]
    assert timedelta(hours=22) < sum(WAITS, timedelta()) < timedelta(hours=24)


def test_every_reason_of_a_destination_has_a_remedy() -> None:
    root = Path(__file__).parents[3]
    sources = [
        *(root / "billing/adapters/destinations").glob("*.py"),
        root / "tenants/adapters/guarded.py",
    ]
    found = {
        reason
        for path in sources
        for reason in re.findall(r'reason="([a-z_]+)"', path.read_text(encoding="utf-8"))
    } - {"forbidden_address", "not_shown"}  # Of clusters, and of the doctor: nothing is delivered.

    assert len(found) >= 12
    assert [reason for reason in sorted(found) if not remedy_of(reason)] == []
    assert remedy_of("status_503") == "Let the receiver answer with a 2xx status."
    assert remedy_of("") == ""
