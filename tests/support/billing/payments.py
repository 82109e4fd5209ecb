"""Builders of payments: rows as banks have them, recorded by Dora."""

from datetime import date
from decimal import Decimal
from typing import Any

from billing.domain.ledger.bank_rows import BankRow
from billing.models import Invoice, Payment
from billing.selectors.ledger.settlement import with_settlement
from billing.services.ledger.payments import record_payment
from tests.support.billing.ledger import DORA
from tests.support.builders import AT

ACCOUNT = "DE89370400440532013000"


def bank_row(reference: str = "B1", amount: str = "3.00", **fields: Any) -> BankRow:  # noqa: ANN401 - Any field.
    """Return a row of Acme's bank, by default of 3.00 EUR."""
    return BankRow(
        **{
            "bank_account": ACCOUNT,
            "bank_reference": reference,
            "amount": Decimal(amount),
            "currency": "EUR",
            "booked_on": AT.date(),
            **fields,
        }
    )


def pay(reference: str = "B1", amount: str = "3.00", **fields: Any) -> Payment:  # noqa: ANN401 - As above.
    """Return a payment, recorded and matched by its text."""
    return record_payment(row=bank_row(reference, amount, **fields), actor=DORA, at=AT)


def csv_text(*rows: tuple[str, str, str]) -> str:
    """Return a bank's CSV file of reference, amount and text, all in EUR on one day."""
    lines = [
        f"{ACCOUNT};{reference};{amount};EUR;{AT:%Y-%m-%d};{text}"
        for reference, amount, text in rows
    ]
    head = "bank_account;bank_reference;amount;currency;booked_on;remittance"
    return "\n".join([head, *lines])


def camt_text(*entries: tuple[str, str, str], indicator: str = "CRDT") -> str:
    """Return a camt.053 statement of reference, amount and text, all in EUR on one day."""
    parts = "".join(
        f'<Ntry><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>{indicator}</CdtDbtInd>'
        f"<Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>{AT:%Y-%m-%d}</Dt></BookgDt>"
        f"<AcctSvcrRef>{reference}</AcctSvcrRef><NtryDtls><TxDtls>"
        f"<RltdPties><Dbtr><Pty><Nm>Acme</Nm></Pty></Dbtr></RltdPties>"
        f"<RmtInf><Ustrd>{text}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"
        for reference, amount, text in entries
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Acct><Id><IBAN>{ACCOUNT}</IBAN></Id></Acct>{parts}</Stmt></BkToCstmrStmt></Document>"
    )


def settled(invoice: Invoice, **of: Any) -> tuple[str, str]:  # noqa: ANN401 - The day.
    """Return the payment status of an invoice, and what is open of it."""
    row = with_settlement(Invoice.objects.filter(pk=invoice.pk), on=of.get("on", date.min)).get()
    return row.payment_status, f"{row.open_amount:.2f}"
