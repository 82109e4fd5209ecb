"""What the operations of the journal and beside final documents are sent in the matrix."""

from typing import Any, Final

from tests.support.billing.payments import ACCOUNT, csv_text

LEDGER_LISTS: Final = (
    "disputes",
    "document-deliveries",
    "journal-entries",
    "minimum-charges",
    "opening-balances",
    "payments",
    "reminder-stops",
    "reminders",
    "write-offs",
)
"""Lists of the ledger that are narrowed by organization."""
LEDGER_BODIES: Final[dict[str, dict[str, Any]]] = {
    "POST accounting-months/": {"label": "2026-09"},
    "POST accounting-months/accrue/": {"label": "2026-10"},
    "POST journal-batches/": {"month": "2026-11", "layout": "csv"},
    "POST payments/": {
        "bank_account": ACCOUNT,
        "bank_reference": "new",
        "amount": "3.00",
        "currency": "EUR",
        "booked_on": "2026-11-01",
        "organization": "{organizations}",
    },
    "POST minimum-charges/": {
        "organization": "{organizations}",
        "amount": "3.00",
        "first_month": "2029-01",
        "last_month": "2029-12",
    },
    "POST minimum-charges/pk/withdraw/": {"reason": "Wrong."},
    "POST price-calendars/": {
        "price_book": "{price-books}",
        "valid_from": "2033-01-01T00:00:00Z",
        "time_zone": "Europe/Berlin",
        "bands": [{"band": "peak", "days": ["mon"], "from": "08:00", "to": "20:00"}],
    },
    "POST price-calendars/pk/withdraw/": {"reason": "Wrong."},
    "POST opening-balances/": {
        "organization": "{organizations}",
        "reference": "new",
        "amount": "3.00",
        "currency": "EUR",
        "dated_on": "2026-11-01",
        "due_on": "2026-11-01",
    },
    "POST document-deliveries/": {
        "document": "{final}",
        "channel": "post",
        "recipient": "Acme, Main Street 1",
    },
    "POST reminder-stops/": {"document": "{final}", "reason": "They pay later."},
    "POST reminder-stops/pk/continue/": {"reason": "They do not."},
    "POST payments/import/": {"format": "csv", "content": csv_text(("file", "1.00", ""))},
    "POST payments/pk/allocate/": {"document": "{final}", "amount": "1.00"},
    "POST payments/pk/release/": {"reason": "Wrong."},
    "POST payments/pk/unassign/": {"reason": "Of another payer."},
    "POST payments/pk/reverse/": {"reason": "No funds.", "booked_on": "2026-11-01"},
    "POST payments/pk/refund/": {
        "reason": "Paid twice.",
        "booked_on": "2026-11-01",
        "amount": "1.00",
        "bank_reference": "back",
    },
    "POST write-offs/": {"document": "{final}", "amount": "1.00", "reason": "Insolvent."},
    "POST write-offs/pk/confirm/": {"note": "Checked."},
    "POST write-offs/pk/reject/": {"note": "They pay."},
    "POST write-offs/pk/reverse/": {"reason": "They paid."},
    "POST disputes/": {"document": "{final}", "reason": "Not ours."},
    "POST disputes/pk/messages/": {"text": "Which pods?"},
    "POST disputes/pk/withdraw/": {"reason": "Our mistake."},
    "POST disputes/pk/reject/": {"reason": "Metered."},
    "POST disputes/pk/accept/": {"reason": "Broken."},
    "POST issuers/": {"slug": "new", "name": "New", "series": "N", "credit_series": "N-CN"},
    "PATCH issuers/pk/": {"name": "New"},
    "POST recipients/": {"organization": "{organizations}", "slug": "new", "name": "New"},
    "PATCH recipients/pk/": {"name": "New"},
    "POST project-routes/": {"project": "{projects}", "purchase_order": "PO-1"},
    "POST repricings/": {"period": "{billing-periods}", "reason": "Typed wrong."},
    "POST invoices/pk/release-balance/": {"reason": "It leaves."},
    "POST invoices/pk/debit/": {
        "reason": "Too little.",
        "lines": [{"line": "00000000-0000-0000-0000-000000000001", "amount": "1.00"}],
    },
}
