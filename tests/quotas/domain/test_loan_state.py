"""The moves of a loan, and the numbers a policy may hold."""

import pytest

from quotas.domain.errors import QuotaLoanDecidedError
from quotas.domain.lending import MOVES, LoanMove, band_problems, next_loan_state

STATES = ("proposed", "active", "declined", "lapsed", "ended", "recalled")


@pytest.mark.parametrize("move", LoanMove)
@pytest.mark.parametrize("state", STATES)
def test_a_loan_moves_along_the_table_and_doing_it_twice_is_once(
    state: str, move: LoanMove
) -> None:
    start, end = MOVES[move]

    if state in {start, end}:
        assert next_loan_state(state, move) == end
        return
    with pytest.raises(QuotaLoanDecidedError) as refusal:
        next_loan_state(state, move)
    assert refusal.value.code == "quota_loan_decided"
    assert refusal.value.facts == {"state": state}


def test_a_policy_within_its_ranges_has_no_problem() -> None:
    assert band_problems(max_units=1, max_days=92, keep_free_percent=0) == ()
    assert band_problems(max_units=1_000_000, max_days=1, keep_free_percent=100) == ()


@pytest.mark.parametrize("wrong", [-1, 0, 2_000_000, True, "8", None])
def test_every_number_out_of_its_range_is_reported(wrong: object) -> None:
    problems = band_problems(max_units=wrong, max_days=wrong, keep_free_percent=-1)

    assert [(one.field, one.code) for one in problems] == [
        ("max_units", "number_out_of_range"),
        ("max_days", "number_out_of_range"),
        ("keep_free_percent", "number_out_of_range"),
    ]
    assert problems[1].message == "Send a whole number from 1 to 92."
