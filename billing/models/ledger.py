"""The journal: a chart of accounts, balanced entries with their postings, and closed months."""

from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.models import Organization


class AccountKind(models.TextChoices):
    """Where a ledger account stands in balance sheet or income statement."""

    ASSET = "asset"
    LIABILITY = "liability"
    INCOME = "income"
    EXPENSE = "expense"


class LedgerAccount(models.Model):
    """An account of the general ledger; the chart is installed with the tables."""

    code = models.CharField(max_length=32, primary_key=True)
    """What the product calls it, such as "receivables"; it never changes."""
    number = models.CharField(max_length=9, unique=True)
    """Its number in exports, digits only."""
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=16, choices=AccountKind.choices)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.CheckConstraint(
                condition=Q(number__regex=r"^[0-9]{4,9}$"), name="ledger_account_number_is_digits"
            ),
        ]

    def __str__(self) -> str:
        """Return number and name."""
        return f"{self.number} {self.name}"


class AccountingMonth(models.Model):
    """A closed month of the general ledger; the latest one closes all months before it too.

    The row "0000-00" comes with the tables: each posting shares it, and a closing locks it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    label = models.CharField(max_length=7, unique=True)
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=200)

    class Meta:
        ordering = ["-label"]

    def __str__(self) -> str:
        """Return the month."""
        return self.label


class JournalEntry(models.Model):
    """One event of the general ledger; its postings add up to zero."""

    class Event(models.TextChoices):
        """What is posted."""

        INVOICE = "invoice"
        CREDIT_NOTE = "credit_note"
        DEBIT_NOTE = "debit_note"
        ACCRUAL = "accrual"
        ACCRUAL_REVERSAL = "accrual_reversal"
        PAYMENT = "payment"
        ASSIGNMENT = "assignment"
        UNASSIGNMENT = "unassignment"
        ALLOCATION = "allocation"
        REVERSAL = "reversal"
        REFUND = "refund"
        WRITE_OFF = "write_off"
        OPENING_BALANCE = "opening_balance"
        CARRIED = "carried"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    event = models.CharField(max_length=20, choices=Event.choices)
    source_key = models.CharField(max_length=120, unique=True)
    """What it is of, such as "document:" and an id: an event is posted once."""
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="journal_entries", null=True
    )
    """None for money from a payer who is not known yet."""
    currency = models.CharField(max_length=3)
    document_on = models.DateField()
    """The date of the event."""
    posting_on = models.DateField()
    """The same, or the first day of the first open month after it."""
    reason = models.CharField(max_length=500)
    posted_by = models.CharField(max_length=200)
    posted_at = models.DateTimeField()

    class Meta:
        ordering = ["posting_on", "id"]
        verbose_name_plural = "journal entries"
        constraints = [
            models.CheckConstraint(
                condition=Q(posting_on__gte=models.F("document_on")),
                name="journal_entry_is_posted_on_its_date_or_later",
            ),
        ]
        indexes = [models.Index(fields=["posted_at", "id"], name="journal_entry_by_posting")]

    def __str__(self) -> str:
        """Return what is posted."""
        return self.reason


class Posting(models.Model):
    """An amount on an account: debit above zero, credit below."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    entry = models.ForeignKey(JournalEntry, on_delete=models.PROTECT, related_name="postings")
    account = models.ForeignKey(LedgerAccount, on_delete=models.PROTECT, related_name="postings")
    amount = models.DecimalField(max_digits=20, decimal_places=4)

    class Meta:
        ordering = ["entry", "account"]
        constraints = [
            models.UniqueConstraint(fields=["entry", "account"], name="posting_unique"),
            models.CheckConstraint(condition=~Q(amount=0), name="posting_is_of_an_amount"),
        ]

    def __str__(self) -> str:
        """Return account and amount."""
        return f"{self.account_id} {self.amount}"


class JournalBatch(models.Model):
    """Entries of a month handed to a general ledger: numbered without gaps, and never changed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    number = models.PositiveBigIntegerField(unique=True)
    month = models.CharField(max_length=7)
    """Of the posting dates, such as "2026-10"."""
    layout = models.CharField(max_length=16)
    entries = models.PositiveIntegerField()
    content = models.TextField()
    """The file as it was made; the same bytes whenever it is fetched."""
    content_sha256 = models.CharField(max_length=64)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        verbose_name_plural = "journal batches"

    def __str__(self) -> str:
        """Return its number."""
        return f"batch {self.number}"


class BatchedEntry(models.Model):
    """In which batch an entry is: each in one."""

    entry = models.OneToOneField(
        JournalEntry, on_delete=models.PROTECT, primary_key=True, related_name="batched"
    )
    batch = models.ForeignKey(JournalBatch, on_delete=models.PROTECT, related_name="batched")

    class Meta:
        ordering = ["batch", "entry"]

    def __str__(self) -> str:
        """Return the batch."""
        return f"{self.batch_id}"
