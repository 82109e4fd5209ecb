"""Invoice states: a draft may be made again, finalized or discarded; a final one stays."""

from enum import StrEnum
from typing import Final

from billing.domain.errors import InvoiceFinalError


class InvoiceState(StrEnum):
    """State of an invoice."""

    DRAFT = "draft"
    FINAL = "final"


class InvoiceMove(StrEnum):
    """What can be done to an invoice."""

    REDRAFT = "redraft"
    DISCARD = "discard"
    FINALIZE = "finalize"


MOVES: Final[dict[InvoiceState, frozenset[InvoiceMove]]] = {
    InvoiceState.DRAFT: frozenset(InvoiceMove),
    InvoiceState.FINAL: frozenset(),
}


def require_move(state: str, move: InvoiceMove, *, reference: str) -> None:
    """Refuse what the state does not allow.

    Raises:
        InvoiceFinalError: The invoice is final.
    """
    if move not in MOVES[InvoiceState(state)]:
        raise InvoiceFinalError(
            f"Invoice {reference} is final and cannot be changed.",
            facts={"reference": reference, "move": move.value},
        )
