"""What happens beside a final document: its due date, payments, and what they are allocated to.

An opening balance is owed, or is credit, as a final document of the system before.
"""

from typing import Final

from django.db import models
from django.db.models import Q

from billing.models.invoice import Invoice
from tenants.domain.identifiers import new_id
from tenants.models import Organization

REFERENCE_LENGTH_MAX: Final = 64


class DueDate(models.Model):
    """Until when a final invoice is to be paid."""

    document = models.OneToOneField(
        Invoice, on_delete=models.PROTECT, primary_key=True, related_name="due_date"
    )
    due_on = models.DateField()
    payment_days = models.PositiveSmallIntegerField()
    """From the date of the document."""

    class Meta:
        ordering = ["due_on", "document"]

    def __str__(self) -> str:
        """Return the date."""
        return f"{self.due_on}"


class PaymentKind(models.TextChoices):
    """Where the money of a payment comes from, or goes to."""

    RECEIPT = "receipt"
    REFUND = "refund"
    REVERSAL = "reversal"
    CREDIT_NOTE = "credit_note"
    OPENING_BALANCE = "opening_balance"
    CARRIED = "carried"


class Payment(models.Model):
    """Money received, above zero, or paid back, below; each bank reference once.

    What is not allocated to documents is the credit of its organization. A credit note that
    corrects no invoice is money to allocate as well, and so is an opening balance below zero, or a
    carried balance that is released.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=16, choices=PaymentKind.choices, default=PaymentKind.RECEIPT)
    bank_account = models.CharField(max_length=34)
    """The account of ours that it was booked on, such as an IBAN."""
    bank_reference = models.CharField(max_length=140)
    """The bank's reference of the transaction; unique on its account."""
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    currency = models.CharField(max_length=3)
    booked_on = models.DateField()
    payer = models.CharField(max_length=140, blank=True, default="")
    remittance = models.CharField(max_length=500, blank=True, default="")
    """The payer's text."""
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="payments", null=True, blank=True
    )
    """None until it is known, and again once a wrong one is taken back."""
    origin = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="returns", null=True, blank=True
    )
    """The payment that is refunded or reversed."""
    document = models.OneToOneField(
        Invoice, on_delete=models.PROTECT, related_name="credit", null=True, blank=True
    )
    """The credit note, or the last document that carried a balance."""
    reason = models.CharField(max_length=500, blank=True, default="")
    """Why it was refunded or reversed."""
    recorded_by = models.CharField(max_length=200)
    recorded_at = models.DateTimeField()

    class Meta:
        ordering = ["-booked_on", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["bank_account", "bank_reference"], name="payment_reference_unique"
            ),
            models.UniqueConstraint(
                fields=["origin"], condition=Q(kind="reversal"), name="payment_reversed_once"
            ),
            models.CheckConstraint(
                condition=Q(
                    kind__in=["receipt", "opening_balance"],
                    amount__gt=0,
                    origin=None,
                    document=None,
                )
                | Q(
                    kind__in=["credit_note", "carried"],
                    amount__gt=0,
                    origin=None,
                    document__isnull=False,
                )
                | Q(
                    kind__in=["refund", "reversal"],
                    amount__lt=0,
                    origin__isnull=False,
                    document=None,
                ),
                name="payment_kind_has_its_sign",
            ),
        ]
        indexes = [models.Index(fields=["recorded_at", "id"], name="payment_by_recording")]

    def __str__(self) -> str:
        """Return the bank's reference."""
        return self.bank_reference


class OpeningBalance(models.Model):
    """What an organization owed in the system before this one, above zero; below, its credit."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="opening_balances"
    )
    reference = models.CharField(max_length=REFERENCE_LENGTH_MAX)
    """Its number there; unique in the organization."""
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    currency = models.CharField(max_length=3)
    dated_on = models.DateField()
    """As of when it is taken over."""
    due_on = models.DateField(null=True, blank=True)
    """None for credit."""
    credit = models.OneToOneField(
        Payment, on_delete=models.PROTECT, related_name="opening_balance", null=True, blank=True
    )
    """What credit is allocated as."""
    recorded_by = models.CharField(max_length=200)
    recorded_at = models.DateTimeField()

    class Meta:
        ordering = ["-dated_on", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "reference"], name="opening_balance_reference_unique"
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=0, due_on__isnull=False, credit=None)
                | Q(amount__lt=0, due_on=None, credit__isnull=False),
                name="opening_balance_is_owed_or_credit",
            ),
        ]

    def __str__(self) -> str:
        """Return its number in the system before."""
        return self.reference


class Reminder(models.Model):
    """That an invoice is overdue, at one level of days; it is sent as a notification."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    document = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="reminders")
    level = models.PositiveSmallIntegerField()
    """From 1; one above the last."""
    days_overdue = models.PositiveIntegerField()
    open_amount = models.DecimalField(max_digits=20, decimal_places=4)
    """On that day."""
    reminded_on = models.DateField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-reminded_on", "id"]
        constraints = [
            models.UniqueConstraint(fields=["document", "level"], name="reminder_level_unique"),
            models.UniqueConstraint(fields=["document", "reminded_on"], name="reminder_once_a_day"),
        ]
        indexes = [models.Index(fields=["created_at"], name="reminder_by_creation")]

    def __str__(self) -> str:
        """Return the level."""
        return f"level {self.level}"

    @property
    def notification_key(self) -> str:
        """The key of the notification that it is sent as."""
        return f"reminder:{self.pk}"


class DeliveryChannel(models.TextChoices):
    """How a document was sent."""

    MAIL = "mail"
    WEBHOOK = "webhook"
    POST = "post"
    PORTAL = "portal"


class DocumentDelivery(models.Model):
    """The sending of a final document, or of a reminder: channel, recipient and time."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    document = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="deliveries")
    channel = models.CharField(max_length=16, choices=DeliveryChannel.choices)
    recipient = models.CharField(max_length=500)
    sent_at = models.DateTimeField()
    reminder = models.ForeignKey(
        Reminder, on_delete=models.PROTECT, related_name="deliveries", null=True, blank=True
    )
    """None where the document itself was sent."""
    notification_delivery_id = models.UUIDField(unique=True, null=True, blank=True, editable=False)
    """Of the outbox, which purges its own rows; None where a person recorded it."""
    recorded_by = models.CharField(max_length=200)
    recorded_at = models.DateTimeField()

    class Meta:
        ordering = ["-sent_at", "id"]
        verbose_name_plural = "document deliveries"
        indexes = [
            models.Index(fields=["recorded_at", "id"], name="document_delivery_by_recording")
        ]

    def __str__(self) -> str:
        """Return the recipient."""
        return self.recipient


class ReminderStop(models.Model):
    """A person's decision not to remind of an invoice, until it is continued."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    document = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="reminder_stops")
    reason = models.CharField(max_length=500)
    stopped_by = models.CharField(max_length=200)
    stopped_at = models.DateTimeField()
    continue_reason = models.CharField(max_length=500, blank=True, default="")
    continued_by = models.CharField(max_length=200, blank=True, default="")
    continued_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-stopped_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["document"],
                condition=Q(continued_at__isnull=True),
                name="reminder_stop_once",
            ),
        ]

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason


class PaymentAllocation(models.Model):
    """An amount of a payment that settles a document or an opening balance.

    A negative one takes an earlier one back.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    payment = models.ForeignKey(Payment, on_delete=models.PROTECT, related_name="allocations")
    document = models.ForeignKey(
        Invoice, on_delete=models.PROTECT, related_name="allocations", null=True, blank=True
    )
    opening_balance = models.ForeignKey(
        OpeningBalance, on_delete=models.PROTECT, related_name="allocations", null=True, blank=True
    )
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    releases = models.OneToOneField(
        "self", on_delete=models.PROTECT, related_name="release", null=True, blank=True
    )
    allocated_by = models.CharField(max_length=200)
    allocated_at = models.DateTimeField()

    class Meta:
        ordering = ["allocated_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount__gt=0, releases=None) | Q(amount__lt=0, releases__isnull=False),
                name="allocation_release_has_its_sign",
            ),
            models.CheckConstraint(
                condition=Q(document__isnull=False, opening_balance=None)
                | Q(document=None, opening_balance__isnull=False),
                name="allocation_settles_one_item",
            ),
        ]
        indexes = [models.Index(fields=["allocated_at"], name="allocation_by_time")]

    def __str__(self) -> str:
        """Return the amount."""
        return f"{self.amount}"
