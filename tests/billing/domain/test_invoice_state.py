"""A draft may be made again, discarded or finalized; a final invoice stays as it is."""

import pytest

from billing.domain.documents.invoicing import InvoiceMove, require_move
from billing.domain.errors import InvoiceFinalError


@pytest.mark.parametrize("move", list(InvoiceMove))
def test_everything_can_be_done_to_a_draft(move: InvoiceMove) -> None:
    require_move("draft", move, reference="draft")


@pytest.mark.parametrize("move", list(InvoiceMove))
def test_nothing_can_be_done_to_a_final_invoice(move: InvoiceMove) -> None:
    with pytest.raises(InvoiceFinalError) as refused:
        require_move("final", move, reference="GL-2026-000001")

    assert refused.value.code == "invoice_is_final"
    assert refused.value.facts == {"reference": "GL-2026-000001", "move": move.value}
