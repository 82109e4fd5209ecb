"""States of a dispute: open, then withdrawn, rejected or accepted; what can be done in which."""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from billing.domain.ledger.errors import DisputeDecidedError, DisputeTooLargeError


class DisputeState(StrEnum):
    """How far a dispute has come; nothing follows but "open"."""

    OPEN = "open"
    WITHDRAWN = "withdrawn"
    REJECTED = "rejected"
    ACCEPTED = "accepted"


class DisputeMove(StrEnum):
    """What can be done to a dispute."""

    REPLY = "reply"
    WITHDRAW = "withdraw"
    REJECT = "reject"
    ACCEPT = "accept"


DISPUTE_MOVES: Final[dict[DisputeMove, tuple[DisputeState, DisputeState]]] = {
    DisputeMove.REPLY: (DisputeState.OPEN, DisputeState.OPEN),
    DisputeMove.WITHDRAW: (DisputeState.OPEN, DisputeState.WITHDRAWN),
    DisputeMove.REJECT: (DisputeState.OPEN, DisputeState.REJECTED),
    DisputeMove.ACCEPT: (DisputeState.OPEN, DisputeState.ACCEPTED),
}
"""From which state, and to which."""


def state_after(state: str, move: DisputeMove) -> DisputeState:
    """Return the state that follows.

    Raises:
        DisputeDecidedError: The dispute is in another state.
    """
    before, after = DISPUTE_MOVES[move]
    if state != before:
        raise DisputeDecidedError(f"The dispute is {state} already.", facts={"state": state})
    return after


def require_within(
    accepted: Mapping[UUID, Decimal], *, disputed: Mapping[UUID, Decimal], total: Decimal
) -> None:
    """Refuse to accept more than is disputed.

    Args:
        accepted: By line.
        disputed: By line; empty if the whole document is.
        total: What is disputed in all.

    Raises:
        DisputeTooLargeError: More is accepted of a line, or in all.
    """
    above = [key for key, amount in accepted.items() if amount > disputed.get(key, total)]
    foreign = [key for key in accepted if disputed and key not in disputed]
    if above or foreign or sum(accepted.values()) > total:
        raise DisputeTooLargeError(
            "More is accepted than is disputed.",
            field="lines",
            facts={"disputed": str(total), "lines": ", ".join(map(str, {*above, *foreign}))},
        )
