"""States of a billing period: open, in review, approved, closed; and what is unusual about it."""

from decimal import Decimal
from enum import StrEnum
from typing import Final

from billing.domain.errors import PeriodStateError, UnusualCostError

UNUSUAL_FACTOR: Final = 3
"""A month that costs more than so many times the usual is sent to review with a reason only."""
USUAL_MONTHS: Final = 3
"""What is usual is the mean of the last months before it that are closed with documents."""


class PeriodMove(StrEnum):
    """What can be done to a period."""

    DRAFT = "draft"
    REVIEW = "review"
    APPROVE = "approve"
    REOPEN = "reopen"
    FINALIZE = "finalize"
    CLOSE_NIL = "close_nil"


PERIOD_MOVES: Final[dict[PeriodMove, tuple[str, ...]]] = {
    PeriodMove.DRAFT: ("open",),
    PeriodMove.REVIEW: ("open",),
    PeriodMove.APPROVE: ("review",),
    PeriodMove.REOPEN: ("review", "approved"),
    PeriodMove.FINALIZE: ("open", "review", "approved"),
    PeriodMove.CLOSE_NIL: ("open",),
}
"""From which states; nothing follows "closed"."""


def require_period_move(state: str, move: PeriodMove, *, label: str) -> None:
    """Refuse what the state does not allow.

    Raises:
        PeriodStateError: The month is in another state.
    """
    if state not in PERIOD_MOVES[move]:
        raise PeriodStateError(
            f"The month {label} is {_STATE_TEXT[state]}.",
            field="period",
            facts={"state": state, "move": move.value},
        )


def is_unusual(total: Decimal, *, usual: Decimal | None) -> bool:
    """Whether a month costs more than UNUSUAL_FACTOR times the usual; never where none is known."""
    return usual is not None and usual > 0 and total > UNUSUAL_FACTOR * usual


def require_usual(
    total: Decimal, *, usual: Decimal | None, acknowledgement: str, currency: str
) -> None:
    """Refuse an unusual cost without a person's reason.

    Raises:
        UnusualCostError: It is unusual, and no reason says why that is right.
    """
    if is_unusual(total, usual=usual) and not acknowledgement:
        raise UnusualCostError(
            f"The month costs more than {UNUSUAL_FACTOR} times the usual.",
            field="acknowledgement",
            facts={"total": str(total), "usual": str(usual), "currency": currency},
        )


_STATE_TEXT: Final = {
    "open": "open",
    "review": "in review",
    "approved": "approved",
    "closed": "closed",
}
