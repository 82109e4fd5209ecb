"""The arithmetic of a line on its page: the figures that the document prints, with their rule."""

from typing import Any

from billing.domain.documents.line_text import line_steps


def steps_of(kind: str, figures: dict[str, str], *, of: str = "invoice") -> tuple[str, list[str]]:
    line: dict[str, Any] = {"kind": kind, "amount": "-12.00", kind: figures}
    made = line_steps(line, document={"currency": "EUR", "kind": of})
    return made.rule, [f"{label}: {figure}" for label, figure in made.steps]


def test_a_tier_line_shows_the_band_and_what_is_in_it() -> None:
    figures = {"schedule": "Bulk", "band": "2", "above": "1000", "in_band": "1200.500000"}

    rule, steps = steps_of("tier", figures | {"whole_amount": "-20.00", "billed_amount": "-8.00"})

    assert rule.startswith("The discount of the band")
    assert steps == [
        "Tier schedule: Bulk",
        "Band: 2",
        "Begins above: 1,000",
        "Of it in this band: 1,200.500000",
        "Discount of this project until now: -20.00",
        "Given before: -8.00",
        "Amount of the line: -12.00 EUR",
    ]


def test_a_minimum_line_shows_what_the_month_lacks() -> None:
    _, steps = steps_of("minimum", {"minimum": "5000.00", "net_of_month": "4000.00"})

    assert steps[:2] == ["Minimum of the month: 5,000.00", "All other lines of the month: 4,000.00"]


def test_a_line_of_a_note_is_an_amount_alone() -> None:
    rule, steps = steps_of("usage", {}, of="credit_note")

    assert "has no quantity of its own" in rule
    assert steps == ["Amount of the line: -12.00 EUR"]
