"""Input of request policies: every problem names its key and what would do."""

from decimal import Decimal
from typing import Any

import pytest

from quotas.domain.requests.input import policy_problems

POLICY: dict[str, Any] = {
    "currency": "EUR",
    "steps": [{"level": "finance", "units_from": {"large": 16}, "cost_from": "10000"}],
    "automatic_units": {"small": 4},
    "automatic_cost": Decimal(500),
    "escalate_after_hours": None,
    "expire_after_days": 30,
    "remind_days": 7,
}
LEVELS = "project_lead, organization_admin, platform, finance"
SIZES = 'Map sizes (large, medium, small) to whole numbers of units, such as {"large": 16}.'
FIRST: dict[str, Any] = {"level": "finance"}


def problems_of(**fields: object) -> list[tuple[str, str]]:
    return [(one.field, one.message) for one in policy_problems({**POLICY, **fields})]


def test_a_whole_policy_has_no_problem() -> None:
    assert problems_of() == []


@pytest.mark.parametrize("steps", [[], "finance", {"level": "finance"}, [FIRST] * 9])
def test_what_is_no_list_of_steps_is_shown_one(steps: object) -> None:
    assert problems_of(steps=steps) == [
        ("steps", 'List 1 to 8 steps, such as [{"level": "organization_admin"}].')
    ]


@pytest.mark.parametrize(
    ("step", "field", "message"),
    [
        (
            "finance",
            "steps.1",
            'Step 2 is no object: write one with a level, such as {"level": "finance"}.',
        ),
        (
            {"level": "finance", "cost_form": "10000", "also": 1},
            "steps.1",
            (
                'Step 2 has "also", "cost_form", which it cannot have: send level, and if you like '
                "units_from and cost_from."
            ),
        ),
        (
            {"level": "boss"},
            "steps.1.level",
            f'Step 2, level: "boss" is none. Use one of: {LEVELS}.',
        ),
        (
            {"cost_from": "1"},
            "steps.1.level",
            f"Step 2, level: it is missing. Use one of: {LEVELS}.",
        ),
        (
            {**FIRST, "units_from": {"huge": 1}},
            "steps.1.units_from",
            f'Step 2, units_from: "huge" is no size. {SIZES}',
        ),
        ({**FIRST, "units_from": 16}, "steps.1.units_from", f"Step 2, units_from: {SIZES}"),
        (
            {**FIRST, "units_from": {"large": "16"}},
            "steps.1.units_from.large",
            "Step 2, units_from, large: send a whole number of units from 0 to 1000000.",
        ),
        (
            {**FIRST, "cost_from": 10000},
            "steps.1.cost_from",
            'Step 2, cost_from: send an amount from 0 as text, such as "10000.00", or null.',
        ),
    ],
)
def test_a_wrong_step_is_reported_by_its_number_its_key_and_the_remedy(
    step: object, field: str, message: str
) -> None:
    assert problems_of(steps=[FIRST, step]) == [(field, message)]


def test_every_problem_of_a_step_is_reported_at_once() -> None:
    fields = problems_of(steps=[{"level": "boss", "units_from": {"large": -1}, "cost_from": "x"}])

    assert [field for field, _ in fields] == [
        "steps.0.level",
        "steps.0.units_from.large",
        "steps.0.cost_from",
    ]


def test_a_wrong_band_is_reported_by_its_key() -> None:
    assert problems_of(automatic_units={"tiny": 1}, automatic_cost=Decimal(-1)) == [
        ("automatic_units", f'automatic_units: "tiny" is no size. {SIZES}'),
        (
            "automatic_cost",
            'automatic_cost: send an amount from 0 as text, such as "10000.00", or null.',
        ),
    ]


@pytest.mark.parametrize(
    ("currency", "message"),
    [
        ("euro", "Use the three letters of ISO 4217."),
        ("", "Say in which currency the amounts are."),
    ],
)
def test_amounts_have_a_currency(currency: str, message: str) -> None:
    assert problems_of(currency=currency) == [("currency", message)]


def test_times_stay_within_their_bounds() -> None:
    assert problems_of(escalate_after_hours=721, expire_after_days=0, remind_days=None) == [
        ("escalate_after_hours", "Send a whole number from 1 to 720."),
        ("expire_after_days", "Send a whole number from 1 to 365."),
        ("remind_days", "Send a whole number from 1 to 90."),
    ]
