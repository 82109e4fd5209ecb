"""Charges: sealed usage with its price pinned, before any invoice."""

from decimal import Decimal

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Greatest

from billing.domain.money import Money, price_of
from billing.models.period import BillingPeriod
from billing.models.price import Price
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization, Project


class AccruedWindow(models.Model):
    """A sealed window whose usage became charges; written in the same transaction as they."""

    window_id = models.BigIntegerField(primary_key=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    window_start = models.DateTimeField()
    usage_unit_seconds = models.BigIntegerField()
    charged_unit_seconds = models.BigIntegerField()
    is_complete = models.BooleanField()
    """False while some usage is not charged; see `AccruedUsage`."""
    accrued_at = models.DateTimeField()

    class Meta:
        ordering = ["window_start", "window_id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(is_complete=False)
                | Q(charged_unit_seconds=models.F("usage_unit_seconds")),
                name="accrued_window_complete_means_equal",
            ),
        ]

    def __str__(self) -> str:
        """Return the hour."""
        return f"{self.window_start:%Y-%m-%dT%H}Z"


class AccruedUsage(models.Model):
    """What one organization used in a sealed window: charged + unpriced = used, always.

    Nothing of it is charged when it is added up; then it is rated, and rated again once a price or
    an assignment of its price books has changed.
    """

    id = models.BigAutoField(primary_key=True)
    window_id = models.BigIntegerField()
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    window_start = models.DateTimeField()
    used_unit_seconds = models.BigIntegerField()
    charged_unit_seconds = models.BigIntegerField()
    unpriced_unit_seconds = models.BigIntegerField()
    price_mark = models.BigIntegerField()
    """The organization's `billing_price_mark` when it was rated; below 0 before it is."""
    accrued_at = models.DateTimeField()

    class Meta:
        ordering = ["window_start", "window_id", "organization"]
        verbose_name_plural = "accrued usage"
        constraints = [
            models.UniqueConstraint(
                fields=["window_id", "organization"], name="accrued_usage_unique"
            ),
            models.CheckConstraint(
                condition=Q(
                    used_unit_seconds=models.F("charged_unit_seconds")
                    + models.F("unpriced_unit_seconds")
                ),
                name="accrued_usage_is_charged_or_unpriced",
            ),
            models.CheckConstraint(
                condition=Q(charged_unit_seconds__gte=0, unpriced_unit_seconds__gte=0),
                name="accrued_usage_not_negative",
            ),
        ]
        indexes = [
            models.Index(fields=["organization", "window_start"], name="accrued_usage_by_hour"),
            models.Index(
                fields=["organization", "price_mark"],
                condition=~Q(unpriced_unit_seconds=0),
                name="accrued_usage_unpriced",
            ),
            models.Index(
                fields=["accrued_at"],
                condition=Q(price_mark__lt=0) & ~Q(unpriced_unit_seconds=0),
                name="accrued_usage_unrated",
            ),
        ]

    def __str__(self) -> str:
        """Return the hour and what is charged of it."""
        return f"{self.window_start:%Y-%m-%dT%H}Z: {self.charged_unit_seconds} unit-seconds charged"


class AccruedCorrection(models.Model):
    """A posted usage correction that became charges; written in the same transaction as they."""

    correction_id = models.UUIDField(primary_key=True)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="+")
    window_id = models.BigIntegerField()
    window_start = models.DateTimeField()
    usage_unit_seconds = models.BigIntegerField()
    charged_unit_seconds = models.BigIntegerField()
    is_complete = models.BooleanField()
    """False while some of its usage has no price; see `price_mark`."""
    price_mark = models.BigIntegerField(default=-1, db_default=-1)
    """The organization's `billing_price_mark` when it was rated; it is rated again above it."""
    accrued_at = models.DateTimeField()

    class Meta:
        ordering = ["window_start", "correction_id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(is_complete=False)
                | Q(charged_unit_seconds=models.F("usage_unit_seconds")),
                name="accrued_correction_complete_means_equal",
            ),
        ]

    def __str__(self) -> str:
        """Return the corrected hour."""
        return f"{self.window_start:%Y-%m-%dT%H}Z"


class Charge(models.Model):
    """Unit-seconds of one window, project, owner, size and price group at one pinned price.

    It is billed once its period is closed, and belongs to the line of that invoice with its key: it
    never changes.
    A correction of the window's usage makes charges of its own, at the price of the same hour.
    The table is written in bulk, so it carries only the indexes that something asks for, and
    triggers check what a statement's charges refer to, instead of foreign keys.
    """

    id = models.BigAutoField(primary_key=True)
    window_id = models.BigIntegerField()
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="charges",
        db_index=False,
        db_constraint=False,
    )
    project = models.ForeignKey(
        Project,
        on_delete=models.PROTECT,
        related_name="charges",
        db_index=False,
        db_constraint=False,
    )
    owner = models.CharField(max_length=150, blank=True, default="")
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    tier = models.PositiveSmallIntegerField(default=0)
    price = models.ForeignKey(
        Price, on_delete=models.PROTECT, related_name="charges", db_constraint=False
    )
    unit_price = models.DecimalField(max_digits=20, decimal_places=10)
    base_unit_price = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    """The price of its base book, where the price book is a discount on one; see ADR 0052."""
    currency = models.CharField(max_length=3)
    correction_id = models.UUIDField(null=True, blank=True)
    """The usage correction it charges, whose unit-seconds may be negative; None for metered use."""
    repricing_id = models.UUIDField(null=True, blank=True)
    """The repricing that made it: it reverses a charge, or charges its use at another price."""
    unit_seconds = models.BigIntegerField()
    period = models.ForeignKey(
        BillingPeriod, on_delete=models.PROTECT, related_name="charges", db_constraint=False
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["window_start", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "window_id",
                    "project",
                    "owner",
                    "size",
                    "price_group",
                    "tier",
                    "price",
                    "correction_id",
                    "repricing_id",
                    "window_start",
                    "organization",
                    "unit_price",
                    "base_unit_price",
                ],
                nulls_distinct=False,
                name="charge_unique",
            ),
            models.CheckConstraint(
                condition=Q(unit_seconds__gte=0)
                | Q(correction_id__isnull=False)
                | Q(repricing_id__isnull=False),
                name="charge_only_a_correction_is_negative",
            ),
            models.CheckConstraint(
                condition=Q(unit_price__gte=0), name="charge_price_not_negative"
            ),
        ]
        indexes = [
            models.Index(fields=["organization", "window_start"], name="charge_by_organization"),
            models.Index(fields=["created_at"], name="charge_by_creation"),
            models.Index(
                fields=["correction_id"],
                condition=Q(correction_id__isnull=False),
                name="charge_by_correction",
            ),
            models.Index(
                fields=["repricing_id"],
                condition=Q(repricing_id__isnull=False),
                name="charge_by_repricing",
            ),
        ]

    def __str__(self) -> str:
        """Return the quantity and the price."""
        return f"{self.unit_seconds} unit-seconds at {self.unit_price} {self.currency}"

    @property
    def list_unit_price(self) -> Decimal:
        """The price before any discount; FOCUS' ListUnitPrice."""
        return self.unit_price if self.base_unit_price is None else self.base_unit_price

    @property
    def cost(self) -> Money:
        """What it costs alone, rounded; a line rounds the sum of its charges once."""
        return price_of(self.unit_seconds, unit_price=self.unit_price, currency=self.currency)


class DailyCost(models.Model):
    """Unit-seconds of one local day, project, owner, cluster, size and price group at one price.

    It is added up from charges, and made again whenever those of its day change; see ADR 0073. What
    it costs is `unit_seconds` times `unit_price`, which is not stored a second time. Only what is
    shown is rounded.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    day = models.DateField()
    """In the time zone of the organization."""
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    owner = models.CharField(max_length=150, blank=True, default="")
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    unit_price = models.DecimalField(max_digits=20, decimal_places=10)
    base_unit_price = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    currency = models.CharField(max_length=3)
    unit_seconds = models.BigIntegerField()

    class Meta:
        ordering = ["-day", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "organization",
                    "day",
                    "project",
                    "owner",
                    "cluster",
                    "size",
                    "price_group",
                    "unit_price",
                    "base_unit_price",
                    "currency",
                ],
                nulls_distinct=False,
                name="daily_cost_unique",
            ),
        ]
        indexes = [models.Index(fields=["day"], name="daily_cost_by_day")]

    def __str__(self) -> str:
        """Return the day and the quantity."""
        return f"{self.day}: {self.unit_seconds} unit-seconds at {self.unit_price} {self.currency}"


class ChangedHour(models.Model):
    """An hour whose charges changed since its day was added up, noted by what charged it."""

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    window_start = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        """Return the hour."""
        return f"{self.window_start:%Y-%m-%dT%H}Z"


class CostView(models.Model):
    """What a person looks at again on the page of costs: the query of its address, by a name."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    name = models.CharField(max_length=64)
    query = models.CharField(max_length=1000, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["person", "name"], name="cost_view_unique"),
        ]

    def __str__(self) -> str:
        """Return its name."""
        return self.name


class AccrualException(models.Model):
    """Sealed usage that cannot be priced; its invoice cannot be finalized while this is open."""

    id = models.BigAutoField(primary_key=True)
    window_id = models.BigIntegerField()
    window_start = models.DateTimeField()
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="accrual_exceptions"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    correction_id = models.UUIDField(null=True, blank=True)
    """The usage correction it is about; None for metered use."""
    unit_seconds = models.BigIntegerField()
    code = models.CharField(max_length=32)
    """"no_price_book", "no_price_calendar" or "no_price"."""
    summary = models.TextField()
    remedy = models.TextField()
    created_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-window_start", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["window_id", "project", "size", "price_group", "correction_id"],
                nulls_distinct=False,
                name="accrual_exception_unique",
            ),
        ]
        indexes = [
            models.Index(Greatest("created_at", "resolved_at"), name="accrual_exception_by_change"),
        ]

    def __str__(self) -> str:
        """Return what lacks a price."""
        return f"{self.code}: {self.size}/{self.price_group}"
