"""The table of moves of a loan, and what a policy about loans may say."""

from enum import StrEnum
from typing import Final

from quotas.domain.errors import QuotaLoanDecidedError
from quotas.domain.limit_input import LIMIT_UNITS_MAX
from tenants.domain.errors import FieldProblem

DAYS_MAX: Final = 92
"""A quarter: what is lent for longer belongs to somebody else, and is a limit."""


class LoanMove(StrEnum):
    """What can become of a loan."""

    APPROVE = "approve"
    DECLINE = "decline"
    LAPSE = "lapse"
    END = "end"
    RECALL = "recall"


MOVES: Final[dict[LoanMove, tuple[str, str]]] = {
    LoanMove.APPROVE: ("proposed", "active"),
    LoanMove.DECLINE: ("proposed", "declined"),
    LoanMove.LAPSE: ("proposed", "lapsed"),
    LoanMove.END: ("active", "ended"),
    LoanMove.RECALL: ("active", "recalled"),
}
"""From where each move leads to where."""


def next_loan_state(state: str, move: LoanMove) -> str:
    """Return the state after a move; the same one when the move has been made before.

    Raises:
        QuotaLoanDecidedError: The loan is not where the move starts.
    """
    start, end = MOVES[move]
    if state not in {start, end}:
        raise QuotaLoanDecidedError(
            f"The loan is {state}; it can no longer be {end}.", facts={"state": state}
        )
    return end


def band_problems(
    *, max_units: object, max_days: object, keep_free_percent: object
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with the band of a policy; every problem is told."""
    return (
        *_range_problems(max_units, "max_units", 1, LIMIT_UNITS_MAX),
        *_range_problems(max_days, "max_days", 1, DAYS_MAX),
        *_range_problems(keep_free_percent, "keep_free_percent", 0, 100),
    )


def _range_problems(value: object, field: str, least: int, most: int) -> tuple[FieldProblem, ...]:
    if type(value) is int and least <= value <= most:
        return ()
    message = f"Send a whole number from {least} to {most}."
    return (FieldProblem(field=field, code="number_out_of_range", message=message),)
