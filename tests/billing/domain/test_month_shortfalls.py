"""What keeps a month from being billed, as finance reads it on Month close and in mails."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from billing.domain.month_board import MonthFacts, MonthStep, Shortfall, shortfall_texts, step_of

UNSEALED = "hours not sealed or not charged"
END_AT = datetime(2026, 11, 1, tzinfo=UTC)
MONTH = MonthFacts(
    period_id=UUID(int=1),
    organization_id=UUID(int=2),
    slug="acme",
    organization="Acme",
    state="open",
    begin_at=datetime(2026, 10, 1, tzinfo=UTC),
    end_at=END_AT,
    reviewed_by="",
    reviewed_by_id="",
    has_charges=True,
    invoice_id=None,
    reference="draft",
    version=0,
    total=None,
    payable=None,
    documents=0,
    currency="EUR",
    previous=None,
    usual=None,
    unaccrued_hours=0,
    first_unaccrued_at=None,
    waiting_corrections=0,
    unpriced=0,
    unpriced_unit_seconds=0,
)


def test_a_month_without_a_shortfall_is_ready() -> None:
    assert shortfall_texts(MONTH) == {}
    assert step_of(MONTH, at=END_AT) is MonthStep.REVIEW


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (
            {"unaccrued_hours": 3, "first_unaccrued_at": datetime(2026, 10, 5, 4, tzinfo=UTC)},
            {Shortfall.HOURS: f"3 {UNSEALED}, the first at 2026-10-05T04:00:00Z"},
        ),
        ({"unaccrued_hours": 1}, {Shortfall.HOURS: "1 hour not sealed or not charged"}),
        ({"waiting_corrections": 2}, {Shortfall.CORRECTIONS: "2 corrections not charged"}),
        ({"waiting_corrections": 1}, {Shortfall.CORRECTIONS: "1 correction not charged"}),
        (
            {"unpriced": 1, "unpriced_unit_seconds": 5400},
            {Shortfall.PRICES: "1.5000 unit-hours without a price"},
        ),
    ],
)
def test_each_shortfall_is_named_with_its_extent(
    fields: dict[str, object], texts: dict[Shortfall, str]
) -> None:
    month = replace(MONTH, **fields)  # type: ignore[arg-type]

    assert shortfall_texts(month) == texts
    assert step_of(month, at=END_AT) is MonthStep.RESOLVE


def test_several_shortfalls_are_named_together() -> None:
    month = replace(MONTH, unaccrued_hours=1, waiting_corrections=1, unpriced=1)

    assert list(shortfall_texts(month)) == [
        Shortfall.HOURS,
        Shortfall.CORRECTIONS,
        Shortfall.PRICES,
    ]
