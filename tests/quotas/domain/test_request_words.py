"""Requests in words: what is asked, what it costs, and what was done."""

from decimal import Decimal

import pytest

from quotas.domain.request_words import WishWords, deed_words, money_words, price_words


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
def test_money_is_told_with_its_currency_and_thousands(
    amount: Decimal | str | None, expected: str
) -> None:
    assert money_words(amount, "EUR") == expected


@pytest.mark.parametrize(
    ("amount", "expected"), [("5840.00", "+5,840.00 EUR"), ("0.00", "0.00 EUR"), (None, "unknown")]
)
def test_a_change_of_money_is_told_with_its_sign(amount: str | None, expected: str) -> None:
    assert money_words(amount, "EUR", is_change=True) == expected


def test_the_price_of_any_group_is_the_general_one() -> None:
    assert [price_words(group) for group in ("*", "H100/whole and */burst", "")] == [
        "general price",
        "H100/whole and general burst price",
        "",
    ]


def test_deeds_are_told_in_words() -> None:
    assert deed_words("quotas:request:approve_step") == "approved a step"
    assert deed_words("quotas:request:burn") == "quotas:request:burn"


@pytest.mark.parametrize(
    ("units_before", "is_unlimited", "expected"),
    [(5, False, "now 5"), (None, True, "now unlimited"), (None, False, "no number is set")],
)
def test_a_wish_tells_what_holds_without_it(
    units_before: int | None, *, is_unlimited: bool, expected: str
) -> None:
    words = WishWords("LLM", "large", 8, units_before, is_unlimited_before=is_unlimited)

    assert words.sentence == (
        f"LLM may hold 8 large in all ({expected}), from the approval on, without end."
    )
