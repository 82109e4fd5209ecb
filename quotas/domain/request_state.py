"""The table of moves of a quota request."""

from enum import StrEnum
from typing import Final

from quotas.domain.errors import QuotaRequestDecidedError


class RequestMove(StrEnum):
    """What can be done to a request."""

    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"
    EXPIRE = "expire"


SUBMITTED: Final = "submitted"
OUTCOME: Final[dict[RequestMove, str]] = {
    RequestMove.APPROVE: "approved",
    RequestMove.REJECT: "rejected",
    RequestMove.CANCEL: "cancelled",
    RequestMove.EXPIRE: "expired",
}
"""Where each move leads; all of them start at `submitted`, and none goes on from there."""


def next_state(state: str, move: RequestMove) -> str:
    """Return the state after a move; the same one when the move has been made before.

    Raises:
        QuotaRequestDecidedError: The request ended in another way.
    """
    if state not in {SUBMITTED, OUTCOME[move]}:
        raise QuotaRequestDecidedError(
            f"The request is {state}; it can no longer be {OUTCOME[move]}.",
            facts={"state": state},
        )
    return OUTCOME[move]
