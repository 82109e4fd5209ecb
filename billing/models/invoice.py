"""Invoices and their lines: drafted, then final and frozen by the database."""

from decimal import Decimal

from django.db import models
from django.db.models import Q
from django.db.models.functions import Greatest

from billing.domain.documents.invoicing import InvoiceKind, InvoiceState, LineKind, reference_of
from billing.models.period import BillingPeriod
from billing.models.routing import PURCHASE_ORDER_LENGTH_MAX, Issuer, Recipient
from billing.models.tier import TierSchedule
from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project

LINE_KIND_CHOICES = [(kind.value, kind.value.capitalize()) for kind in LineKind]
KIND_CHOICES = [(kind.value, kind.value.replace("_", " ").capitalize()) for kind in InvoiceKind]
STATE_CHOICES = [(state.value, state.value.capitalize()) for state in InvoiceState]


class InvoiceSeries(models.Model):
    """The counter behind a series of gapless numbers; the last lock of a finalization.

    A series is a prefix and the year of issue, such as "GL-2026". One without a year is of a
    version whose numbers ran over the years.
    """

    code = models.CharField(max_length=20, primary_key=True)
    first_number = models.PositiveBigIntegerField(default=1, db_default=1)
    next_number = models.PositiveBigIntegerField(default=1)
    last_issued_at = models.DateTimeField(null=True, blank=True)
    """The date of its last number; the next one has no earlier one."""

    class Meta:
        verbose_name_plural = "invoice series"

    def __str__(self) -> str:
        """Return the code."""
        return self.code


class Invoice(models.Model):
    """What an organization owes for a period, or is given back: one document of a billing run.

    Run 1 is the month; each later one credits a final invoice, and may replace it. A run has a
    document for each issuer, recipient and purchase order that its projects are routed to.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="invoices"
    )
    period = models.ForeignKey(BillingPeriod, on_delete=models.PROTECT, related_name="invoices")
    kind = models.CharField(
        max_length=16, choices=KIND_CHOICES, default=InvoiceKind.INVOICE.value, db_default="invoice"
    )
    run = models.PositiveSmallIntegerField(default=1, db_default=1)
    run_reason = models.CharField(max_length=500, blank=True, default="", db_default="")
    """Why there is a later run."""
    corrects = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="corrections", null=True, blank=True
    )
    """The final document that a credit or debit note of a later run corrects."""
    issuer = models.ForeignKey(
        Issuer, on_delete=models.PROTECT, related_name="invoices", null=True, blank=True
    )
    """None for the one in the settings."""
    recipient = models.ForeignKey(
        Recipient, on_delete=models.PROTECT, related_name="invoices", null=True, blank=True
    )
    """None for the organization itself."""
    purchase_order = models.CharField(
        max_length=PURCHASE_ORDER_LENGTH_MAX, blank=True, default="", db_default=""
    )
    state = models.CharField(max_length=16, choices=STATE_CHOICES, default=InvoiceState.DRAFT.value)
    series = models.CharField(max_length=20)
    """The prefix of a draft; with the year of issue, such as "GL-2026", once it is final."""
    issue_year = models.PositiveSmallIntegerField(default=0, db_default=0)
    """0 for a draft, and for a number from before series had a year."""
    number = models.PositiveBigIntegerField(null=True, blank=True)
    currency = models.CharField(max_length=3)
    total = models.DecimalField(max_digits=20, decimal_places=4)
    """Sum of the lines, in the currency's minor unit; net of any tax."""
    tax_total = models.DecimalField(
        max_digits=20, decimal_places=4, default=Decimal(0), db_default=Decimal(0)
    )
    brought_forward = models.DecimalField(
        max_digits=20, decimal_places=4, default=Decimal(0), db_default=Decimal(0)
    )
    """The balance that documents before it carried: below zero it is owed to the customer."""
    carried_forward = models.DecimalField(
        max_digits=20, decimal_places=4, default=Decimal(0), db_default=Decimal(0)
    )
    """What it leaves to the next document instead of asking for it, or giving it back."""
    unit_seconds = models.BigIntegerField(default=0)
    document = models.JSONField(default=dict)
    """Issuer, customer, period and lines as printed; the PDF and CSV are made from it alone."""
    content = models.TextField(blank=True, default="", db_default="")
    """The canonical text of the final document, which `content_sha256` is the digest of."""
    content_sha256 = models.CharField(max_length=64, blank=True, default="")
    drafted_by = models.CharField(max_length=200)
    drafted_by_id = models.CharField(max_length=64)
    drafted_by_kind = models.CharField(max_length=16, blank=True, default="", db_default="")
    """"person" where a person drafted it: four eyes count people only."""
    drafted_at = models.DateTimeField()
    checked_at = models.DateTimeField(null=True, blank=True)
    """When the draft was last compared with the charges."""
    finalized_by = models.CharField(max_length=200, blank=True, default="")
    finalized_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-period__label", "organization__slug"]
        indexes = [models.Index(Greatest("drafted_at", "finalized_at"), name="invoice_by_change")]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "organization",
                    "period",
                    "run",
                    "issuer",
                    "recipient",
                    "purchase_order",
                ],
                condition=Q(corrects__isnull=True),
                nulls_distinct=False,
                name="invoice_unique",
            ),
            models.UniqueConstraint(
                fields=["organization", "period", "run"],
                condition=Q(corrects__isnull=False),
                name="invoice_credit_unique",
            ),
            models.UniqueConstraint(fields=["series", "number"], name="invoice_number_unique"),
            models.CheckConstraint(
                condition=Q(state=InvoiceState.DRAFT.value, number__isnull=True)
                | Q(
                    state=InvoiceState.FINAL.value,
                    number__isnull=False,
                    finalized_at__isnull=False,
                    content_sha256__regex=r"^[0-9a-f]{64}$",
                ),
                name="invoice_final_has_number_and_digest",
            ),
        ]

    def __str__(self) -> str:
        """Return the number as printed."""
        return self.reference

    @property
    def payable(self) -> Decimal:
        """The total with taxes."""
        return self.total + self.tax_total

    @property
    def amount_due(self) -> Decimal:
        """What it asks for: the total with taxes and the balance of documents before it."""
        return self.payable + self.brought_forward - self.carried_forward

    @property
    def reference(self) -> str:
        """The number as printed, such as "GL-2026-000012"; "draft" before there is one."""
        if self.number is None:
            return "draft"
        if not self.issue_year:
            return f"{self.series}-{self.period.label[:4]}-{self.number:06d}"
        return reference_of(self.series, self.number)


class FileKind(models.TextChoices):
    """As what a document is stored: rendered at the first request, or frozen with it."""

    PDF = "pdf", "PDF"
    CII = "cii", "E-invoice, CII"
    UBL = "ubl", "E-invoice, UBL"


class DocumentFile(models.Model):
    """A file of a final document: as it was rendered first, or frozen with the document."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    document = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="files")
    kind = models.CharField(max_length=16, choices=FileKind.choices)
    content = models.BinaryField()
    sha256 = models.CharField(max_length=64)
    rendered_at = models.DateTimeField()

    class Meta:
        ordering = ["document", "kind"]
        constraints = [
            models.UniqueConstraint(fields=["document", "kind"], name="document_file_unique")
        ]

    def __str__(self) -> str:
        """Return document and kind."""
        return f"{self.document}.{self.kind}"


class InvoiceLine(models.Model):
    """One project's use of one size and price group at one price: multiplied once, rounded once.

    Its charges are those of the invoice's period with its key.

    A line about an earlier month is rounded together with what was billed for the same before, so
    that all lines of a month add up to one rounding of all of its use.

    A line of kind "tier" is the discount of a band on list money, and one of kind "minimum" what a
    month lacks to the minimum charge: they have no quantity and no size. One of kind "credit" gives
    back use of its size, group and price that broken hardware spoiled; it has no quantity either.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    invoice = models.ForeignKey(Invoice, on_delete=models.CASCADE, related_name="lines")
    position = models.PositiveIntegerField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="invoice_lines")
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    service_period = models.ForeignKey(
        BillingPeriod,
        on_delete=models.PROTECT,
        related_name="late_lines",
        null=True,
        blank=True,
    )
    """The earlier month the use was in; None for the invoice's own."""
    description = models.CharField(max_length=300)
    unit_seconds = models.BigIntegerField()
    billed_unit_seconds = models.BigIntegerField(default=0, db_default=0)
    """What final invoices had billed of the same before it."""
    unit_price = models.DecimalField(max_digits=20, decimal_places=10)
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    kind = models.CharField(
        max_length=16,
        choices=LINE_KIND_CHOICES,
        default=LineKind.USAGE.value,
        db_default=LineKind.USAGE.value,
    )
    tier_schedule = models.ForeignKey(
        TierSchedule, on_delete=models.PROTECT, related_name="lines", null=True, blank=True
    )
    tier_band = models.PositiveSmallIntegerField(default=0, db_default=0)
    """From 1; 0 for use."""
    tier_span = models.CharField(max_length=7, blank=True, default="", db_default="")
    """The first month of what a tier line counts, such as "2026-10"."""

    class Meta:
        ordering = ["invoice", "position"]
        indexes = [
            models.Index(fields=["invoice"], condition=Q(kind="tier"), name="invoice_line_tiers"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["invoice", "position"], name="invoice_line_position"),
            models.UniqueConstraint(
                fields=[
                    "invoice",
                    "kind",
                    "project",
                    "size",
                    "price_group",
                    "unit_price",
                    "service_period",
                    "tier_schedule",
                    "tier_band",
                    "tier_span",
                ],
                nulls_distinct=False,
                name="invoice_line_key",
            ),
            models.CheckConstraint(
                condition=Q(kind="usage", tier_schedule__isnull=True, tier_band=0, tier_span="")
                | Q(
                    kind="tier",
                    tier_schedule__isnull=False,
                    tier_band__gte=1,
                    tier_span__gt="",
                    size="",
                    price_group="",
                    service_period__isnull=True,
                    unit_seconds=0,
                    billed_unit_seconds=0,
                    unit_price=0,
                )
                | Q(
                    kind="minimum",
                    tier_schedule__isnull=True,
                    tier_band=0,
                    tier_span="",
                    size="",
                    price_group="",
                    unit_seconds=0,
                    billed_unit_seconds=0,
                    unit_price=0,
                )
                | Q(
                    kind="credit",
                    tier_schedule__isnull=True,
                    tier_band=0,
                    tier_span="",
                    size__gt="",
                    price_group__gt="",
                    unit_seconds=0,
                    billed_unit_seconds=0,
                ),
                name="invoice_line_kind",
            ),
        ]

    def __str__(self) -> str:
        """Return what it is for."""
        return self.description
