"""What a limit says, as far as it is said."""

import pytest

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.input import KEEP, LimitTerms
from quotas.domain.limits.selectors import LimitSelector, model_group_problems


@pytest.mark.parametrize(
    "terms",
    [
        LimitTerms(0),
        LimitTerms(None),
        LimitTerms(1_000_000, 1_000_000, 1_000, 744_000_000),
        LimitTerms(8, 0, 100, None),
        LimitTerms(8, KEEP, KEEP, 1),
    ],
)
def test_terms_that_can_be_have_no_problem(terms: LimitTerms) -> None:
    assert list(terms.problems()) == []


def test_every_problem_is_reported_at_once() -> None:
    terms = LimitTerms("8", -1, 99, 0)  # type: ignore[arg-type] # As a client could send it.

    assert [(p.field, p.code) for p in terms.problems()] == [
        ("limit_units", "units_invalid"),
        ("burst_units", "units_invalid"),
        ("overcommit_percent", "overcommit_invalid"),
        ("monthly_unit_hours", "unit_hours_invalid"),
    ]


@pytest.mark.parametrize("name", ["", "H100", "RTX-6000-Ada-Generation", "L40S", "a_b.c"])
def test_a_model_group_is_a_word(name: str) -> None:
    assert model_group_problems(name) == ()


@pytest.mark.parametrize("name", ["H100/whole", " H100", "-H100", "x" * 33, "H100\n", 7, None])
def test_what_is_no_model_group_is_reported(name: object) -> None:
    (problem,) = model_group_problems(name)

    assert (problem.field, problem.code) == ("model_group", "model_group_invalid")


@pytest.mark.parametrize(
    ("selector", "reported"),
    [
        (LimitSelector(GPUSize.LARGE), "large"),
        (LimitSelector(GPUSize.LARGE, "H100"), "large H100"),
        (LimitSelector(GPUSize.SMALL, "", "hopper"), "small on hopper"),
        (LimitSelector(GPUSize.LARGE, "H100", "hopper"), "large H100 on hopper"),
    ],
)
def test_a_selector_is_reported_in_words(selector: LimitSelector, reported: str) -> None:
    assert str(selector) == reported
