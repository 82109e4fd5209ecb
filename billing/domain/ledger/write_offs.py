"""States of a write-off: proposed, then rejected or posted, and a posted one perhaps reversed."""

from decimal import Decimal
from enum import StrEnum
from typing import Final

from billing.domain.documents.document_text import money_text
from billing.domain.ledger.errors import (
    WriteOffFourEyesError,
    WriteOffStateError,
    WriteOffTooLargeError,
)
from billing.domain.money import Money


class WriteOffState(StrEnum):
    """How far a write-off has come."""

    PROPOSED = "proposed"
    REJECTED = "rejected"
    POSTED = "posted"
    REVERSED = "reversed"


class WriteOffMove(StrEnum):
    """What can be done to a write-off."""

    CONFIRM = "confirm"
    REJECT = "reject"
    REVERSE = "reverse"


WRITE_OFF_MOVES: Final[dict[WriteOffMove, tuple[WriteOffState, WriteOffState]]] = {
    WriteOffMove.CONFIRM: (WriteOffState.PROPOSED, WriteOffState.POSTED),
    WriteOffMove.REJECT: (WriteOffState.PROPOSED, WriteOffState.REJECTED),
    WriteOffMove.REVERSE: (WriteOffState.POSTED, WriteOffState.REVERSED),
}
"""From which state, and to which."""


def write_off_after(state: str, move: WriteOffMove) -> WriteOffState:
    """Return the state that follows.

    Raises:
        WriteOffStateError: The write-off is in another state.
    """
    before, after = WRITE_OFF_MOVES[move]
    if state != before:
        raise WriteOffStateError(
            f"The write-off is {state}.", facts={"state": state, "move": move.value}
        )
    return after


def require_open_amount(amount: Decimal, *, left: Decimal, currency: str) -> None:
    """Refuse to write off what is no amount, or more than is open.

    Raises:
        WriteOffTooLargeError: It is not above zero, finer than the currency, or above what is open.
    """
    try:
        is_above_zero = Money(amount, currency).minor_units > 0
    except ValueError:
        is_above_zero = False
    if not is_above_zero or amount > left:
        raise WriteOffTooLargeError(
            "The amount is not above zero, finer than the currency, or more than the "
            f"{money_text(left, currency)} that are open.",
            field="amount",
            facts={"open": str(left), "currency": currency},
        )


def require_second_person(
    *, proposer_id: str, proposer: str, actor_id: str, is_four_eyes: bool
) -> None:
    """Refuse that the proposer of a write-off confirms it.

    Raises:
        WriteOffFourEyesError: The site requires four eyes, and it is the same account.
    """
    if is_four_eyes and proposer_id == actor_id:
        raise WriteOffFourEyesError(
            "A write-off is confirmed by another person than proposed it.",
            facts={"requested_by": proposer},
        )
