"""Which sizes, units and words can be a limit or a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.errors import QuotaInputError
from quotas.domain.limits.input import (
    JUSTIFICATION_LENGTH_MAX,
    LIMIT_UNITS_MAX,
    NOTE_LENGTH_MAX,
    justification_problems,
    limit_units_problems,
    note_problems,
    overcommit_problems,
    refuse_problems,
    size_problems,
    unit_hours_problems,
    units_problems,
)


@given(units=st.integers(min_value=0, max_value=LIMIT_UNITS_MAX))
def test_every_whole_number_up_to_the_largest_platform_can_be_a_limit(units: int) -> None:
    assert units_problems(units, field="limit_units") == ()


@pytest.mark.parametrize(
    "value", [-1, LIMIT_UNITS_MAX + 1, 10**400, 1.0, 2.5, "3", True, None, [], float("nan")]
)
def test_what_is_no_number_of_units_is_named_with_its_field(value: object) -> None:
    (problem,) = units_problems(value, field="limit_units")

    assert (problem.field, problem.code) == ("limit_units", "units_invalid")
    assert problem.message == "Send a whole number of units from 0 to 1000000."


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_the_three_sizes_are_known(size: str) -> None:
    assert size_problems(size) == ()


@pytest.mark.parametrize("size", ["huge", "", "SMALL", None, 1, []])
def test_another_size_is_refused_and_the_known_ones_are_named(size: object) -> None:
    (problem,) = size_problems(size)

    assert (problem.field, problem.code) == ("size", "size_unknown")
    assert problem.message == "Use one of: small, medium, large."


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_request_must_say_why(text: str) -> None:
    assert [p.code for p in justification_problems(text)] == ["justification_missing"]


def test_a_reason_and_a_note_have_a_length_that_a_person_reads() -> None:
    assert justification_problems("x" * JUSTIFICATION_LENGTH_MAX) == ()
    assert note_problems("") == note_problems("x" * NOTE_LENGTH_MAX) == ()

    reason = justification_problems("x" * (JUSTIFICATION_LENGTH_MAX + 1))
    note = note_problems("x" * (NOTE_LENGTH_MAX + 1))

    assert [(p.field, p.code) for p in reason] == [("justification", "text_too_long")]
    assert [(p.field, p.code) for p in note] == [("note", "text_too_long")]


def test_a_nul_that_postgresql_cannot_keep_is_refused() -> None:
    assert [p.code for p in note_problems("a\x00b")] == ["text_has_nul"]


def test_no_problem_is_no_refusal() -> None:
    refuse_problems(())


def test_every_problem_is_reported_in_one_refusal() -> None:
    problems = (*size_problems("huge"), *units_problems(-1, field="limit_units"))

    with pytest.raises(QuotaInputError) as refusal:
        refuse_problems(problems)

    assert refusal.value.code == "quota_input_invalid"
    assert refusal.value.field == "size"
    assert refusal.value.problems == problems


@pytest.mark.parametrize("value", [None, 0, 8, 1_000_000])
def test_a_limit_may_be_unlimited_or_any_number_of_units(value: object) -> None:
    assert limit_units_problems(value, field="limit_units") == ()


@pytest.mark.parametrize("value", [-1, 1_000_001, 1.5, "8", True])
def test_a_limit_that_is_neither_is_reported(value: object) -> None:
    (problem,) = limit_units_problems(value, field="limit_units")

    assert (problem.field, problem.code) == ("limit_units", "units_invalid")


@pytest.mark.parametrize("value", [100, 101, 1_000])
def test_at_least_all_of_a_limit_may_be_promised(value: int) -> None:
    assert overcommit_problems(value) == ()


@pytest.mark.parametrize("value", [99, 0, -100, 1_001, 150.0, "150", True, None])
def test_less_than_all_or_absurdly_much_is_reported(value: object) -> None:
    (problem,) = overcommit_problems(value)

    assert (problem.field, problem.code) == ("overcommit_percent", "overcommit_invalid")


@pytest.mark.parametrize("value", [None, 1, 744_000_000])
def test_a_months_allowance_is_any_number_or_one(value: object) -> None:
    assert unit_hours_problems(value) == ()


@pytest.mark.parametrize("value", [0, -1, 744_000_001, 1.0, "7", True])
def test_an_allowance_that_is_neither_is_reported_with_the_remedy(value: object) -> None:
    (problem,) = unit_hours_problems(value)

    assert (problem.field, problem.code) == ("monthly_unit_hours", "unit_hours_invalid")
    assert "set limit_units to 0" in problem.message
