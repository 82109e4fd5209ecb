"""Entries of the journal as they are exported, without anything that could change."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from billing.domain.period import Month


@dataclass(frozen=True)
class ExportedPosting:
    """An amount on an account: debit above zero, credit below."""

    account_number: str
    account_name: str
    amount: Decimal


@dataclass(frozen=True)
class ExportedEntry:
    """One event with its postings, which add up to zero.

    Attributes:
        organization: Its slug; "" for money of an unknown payer.
    """

    id: str
    event: str
    organization: str
    currency: str
    document_on: date
    posting_on: date
    reason: str
    postings: tuple[ExportedPosting, ...]


@dataclass(frozen=True)
class BatchFacts:
    """What a file says about its batch."""

    number: int
    month: Month
    created_at: datetime


def counter_postings(
    entry: ExportedEntry,
) -> tuple[ExportedPosting, tuple[ExportedPosting, ...]]:
    """Return the posting of the largest amount, and the others, which add up to its opposite.

    For general ledgers that book account against account.
    """
    largest = max(entry.postings, key=lambda posting: (abs(posting.amount), posting.account_number))
    return largest, tuple(posting for posting in entry.postings if posting is not largest)
