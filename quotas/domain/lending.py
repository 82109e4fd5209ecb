"""Lending: which project could lend units it holds idle, and the states of a loan.

What is lent leaves the lender's limit and joins the borrower's, so the organization's sum stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from quotas.domain.errors import QuotaLoanDecidedError
from quotas.domain.limits.input import LIMIT_UNITS_MAX
from tenants.domain.errors import FieldProblem

OFFERS_MAX: Final = 50
"""A person cannot review more at once; the next hourly run finds the rest."""


@dataclass(frozen=True)
class LoanBand:
    """What an organization has agreed to.

    Attributes:
        max_units: The most one project borrows of one selector, by all its loans together.
        max_days: The longest a loan lasts.
        keep_free_percent: Part of the lender's limit that stays free; 0 to 100.
    """

    max_units: int
    max_days: int
    keep_free_percent: int


@dataclass(frozen=True)
class LendingCapacity:
    """One project's limit of one selector, now.

    Attributes:
        limit_units: In force, loans and grants included.
        taken_units: Held and admitted now.
        peak_units: Its highest use in the observed period, without its busiest hours.
        promised_units: What the limits of its users need it to be.
        ceiling_units: What the organization's limit allows it to be; None when nothing does.
        may_lend: Whether it may lend: False for a project that borrows or waits for units, and for
            a limit that was changed recently.
        borrowed_units: Of the limit, what it has by loans in force.
    """

    project_id: UUID
    limit_units: int
    taken_units: int
    peak_units: int
    promised_units: int = 0
    ceiling_units: int | None = None
    may_lend: bool = True
    borrowed_units: int = 0


@dataclass(frozen=True)
class Wait:
    """A project that was refused, or asks for more.

    Attributes:
        wanted_units: How many more it wants than it holds now.
    """

    project_id: UUID
    wanted_units: int


@dataclass(frozen=True)
class LoanOffer:
    """Units that one project could lend another."""

    lender_id: UUID
    borrower_id: UUID
    units: int


def kept_units(capacity: LendingCapacity, *, keep_free_percent: int) -> int:
    """Return what a lender keeps: what it uses and a share of its limit, rounded up."""
    free = -(-capacity.limit_units * keep_free_percent // 100)
    return max(max(capacity.taken_units, capacity.peak_units) + free, capacity.promised_units)


def spare_units(capacity: LendingCapacity, *, keep_free_percent: int) -> int:
    """Return what a project could lend; never negative."""
    if not capacity.may_lend:
        return 0
    return max(0, capacity.limit_units - kept_units(capacity, keep_free_percent=keep_free_percent))


def missing_units(capacity: LendingCapacity, wait: Wait) -> int:
    """Return how many units a limit is short of what is wanted, as far as it may grow."""
    short = wait.wanted_units - max(0, capacity.limit_units - capacity.taken_units)
    if capacity.ceiling_units is not None:
        short = min(short, capacity.ceiling_units - capacity.limit_units)
    return max(0, short)


def may_borrow_units(capacity: LendingCapacity, *, band: LoanBand) -> int:
    """Return how many more units a project may borrow; loans in force count."""
    return max(0, band.max_units - capacity.borrowed_units)


def match_offers(
    capacities: Iterable[LendingCapacity], waits: Iterable[Wait], *, band: LoanBand
) -> tuple[LoanOffer, ...]:
    """Return loans that would help, for the largest need first, from the lender with most to spare.

    A project that waits lends nothing. What one lender cannot give, the next may; what a project
    borrows from all of them, loans in force included, never exceeds the band.

    Args:
        capacities: The limits of one organization's projects, all of one selector.
        waits: One per project at most.
        band: What the organization has agreed to.
    """
    by_project = {capacity.project_id: capacity for capacity in capacities}
    needs = {
        wait.project_id: missing_units(by_project[wait.project_id], wait)
        for wait in waits
        if wait.project_id in by_project
    }
    spares = {
        project_id: spare_units(capacity, keep_free_percent=band.keep_free_percent)
        for project_id, capacity in by_project.items()
        if project_id not in needs
    }
    offers: list[LoanOffer] = []
    for borrower_id, need in sorted(needs.items(), key=lambda item: (-item[1], str(item[0]))):
        most = may_borrow_units(by_project[borrower_id], band=band)
        offers += _offers_to(borrower_id, min(need, most), spares)
    return tuple(offers[:OFFERS_MAX])


def _offers_to(borrower_id: UUID, need: int, spares: dict[UUID, int]) -> list[LoanOffer]:
    offers = []
    for lender_id in sorted(spares, key=lambda one: (-spares[one], str(one))):
        units = min(need, spares[lender_id])
        if units <= 0:
            break
        offers.append(LoanOffer(lender_id, borrower_id, units))
        spares[lender_id] -= units
        need -= units
    return offers


DAYS_MAX: Final = 92
"""A quarter: a longer transfer should be a change of limits."""


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
    """Return every problem of the band of a policy."""
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
