"""States of a billing period: open, in review, approved, closed."""

from enum import StrEnum
from typing import Final

from billing.domain.errors import PeriodStateError


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


_STATE_TEXT: Final = {
    "open": "open",
    "review": "in review",
    "approved": "approved",
    "closed": "closed",
}
