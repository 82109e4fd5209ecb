"""Requests in words: what is asked, what it costs, and what was done."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from quotas.domain.requests.labels import action_text, money_text, price_text
from quotas.services.requests.news import Allowed, RequestFigures
from tests.support.builders import AT

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (Decimal("28239.70"), "28,239.70 EUR"),
        ("1460.00", "1,460.00 EUR"),
        (Decimal("0.00"), "0.00 EUR"),
        (Decimal("-1460.00"), "-1,460.00 EUR"),
        (None, "unknown"),
    ],
)
def test_money_is_reported_with_its_currency_and_thousands(
    amount: Decimal | str | None, expected: str
) -> None:
    assert money_text(amount, "EUR") == expected


@pytest.mark.parametrize(
    ("amount", "expected"), [("5840.00", "+5,840.00 EUR"), ("0.00", "0.00 EUR"), (None, "unknown")]
)
def test_a_change_of_money_is_reported_with_its_sign(amount: str | None, expected: str) -> None:
    assert money_text(amount, "EUR", is_change=True) == expected


def test_the_price_of_any_group_is_the_general_one() -> None:
    assert [price_text(group) for group in ("*", "H100/whole and */burst", "")] == [
        "general price",
        "H100/whole and general burst price",
        "",
    ]


def test_calls_are_reported_in_words() -> None:
    assert action_text("quotas:request:approve_step") == "approved a step"
    assert action_text("quotas:request:burn") == "quotas:request:burn"


@pytest.mark.parametrize(
    ("units_before", "is_unlimited", "expected"),
    [(5, False, "now 5"), (None, True, "now unlimited"), (None, False, "no number is set")],
)
def test_a_request_shows_what_holds_without_it(
    units_before: int | None, *, is_unlimited: bool, expected: str
) -> None:
    words = RequestFigures("LLM", "large", 8, units_before, is_unlimited_before=is_unlimited)

    assert words.sentence == (
        f"LLM may hold 8 large in all ({expected}), from the approval on, without end."
    )


@pytest.mark.parametrize(
    ("units_before", "is_unlimited", "expected"),
    [
        (5, False, "5 until then"),
        (None, True, "unlimited until then"),
        (None, False, "no number was set"),
    ],
)
def test_an_approved_request_shows_what_held_until_then(
    units_before: int | None, *, is_unlimited: bool, expected: str
) -> None:
    words = RequestFigures("LLM", "large", 8, units_before, is_unlimited_before=is_unlimited)

    assert words.sentence_approved == (
        f"LLM may hold 8 large in all ({expected}), from the approval on, without end."
    )


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (Allowed(5), "5"),
        (Allowed(0), "0"),
        (Allowed(5, 1), "5 and 1 burst"),
        (Allowed(None), "not set"),
        (Allowed(None, 2), "not set"),
        (Allowed(None, is_unlimited=True), "unlimited"),
        (Allowed(None, 2, is_unlimited=True), "unlimited and 2 burst"),
    ],
)
def test_what_may_be_held_is_reported_in_words(allowed: Allowed, expected: str) -> None:
    assert str(allowed) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (Allowed(5), "it is allowed 5 now"),
        (Allowed(5, 1), "it is allowed 5 and 1 burst now"),
        (Allowed(None), "no number is set now"),
        (Allowed(None, is_unlimited=True), "it is unlimited now"),
    ],
)
def test_an_open_request_shows_what_would_be_and_what_is_now(now: Allowed, expected: str) -> None:
    words = RequestFigures("LLM", "large", 8, 5, end_at=AT)

    assert words.would_be(now=now) == (
        "Once approved, LLM is allowed 8 large in all, from the approval on, until 2 November "
        f"2026, 09:00 UTC; {expected}."
    )


@pytest.mark.parametrize(
    ("begin_at", "expected"),
    [(None, "2 November 2026, 09:00 UTC"), (AT + DAY, "3 November 2026, 09:00 UTC")],
)
def test_an_approved_request_shows_what_was_and_what_is_now(
    begin_at: datetime | None, expected: str
) -> None:
    words = RequestFigures("LLM", "large", 8, 2, begin_at=begin_at)

    reported = words.was_approved(before=Allowed(2), now=Allowed(6), decided_at=AT)

    assert reported == (
        f"LLM was allowed 8 large in all, from {expected}, without end "
        "(was 2 when it was approved; now 6)."
    )


def test_a_request_in_vain_shows_what_would_have_been_and_no_number_of_now() -> None:
    assert RequestFigures("LLM", "large", 8, 5).sentence_in_vain == (
        "LLM would have been allowed 8 large in all, from the approval on, without end."
    )
