"""Issuers, recipients, routes of projects to them, and the routes of billing runs."""

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q

from billing.models.period import BillingPeriod
from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project
from tenants.models.organization import COUNTRY, SLUG, Language

SERIES = RegexValidator(r"^[A-Z0-9-]{1,12}$", "Use 1 to 12 capital letters, digits and hyphens.")
PURCHASE_ORDER_LENGTH_MAX = 64


class Issuer(models.Model):
    """A legal entity that bills, beside the one in the settings; its numbers are its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    address = models.TextField(max_length=1000, blank=True, default="")
    tax_id = models.CharField(max_length=64, blank=True, default="")
    bank_account = models.CharField(max_length=64, blank=True, default="")
    country = models.CharField(
        max_length=2, blank=True, default="", db_default="", validators=[COUNTRY]
    )
    series = models.CharField(max_length=12, unique=True, validators=[SERIES])
    """Prefix of the numbers of its invoices; neither prefix ever changes."""
    credit_series = models.CharField(max_length=12, unique=True, validators=[SERIES])
    first_number = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1)])
    """The first number of each year, of either."""
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(series=F("credit_series")), name="issuer_has_two_series"
            ),
        ]

    def __str__(self) -> str:
        """Return the slug."""
        return self.slug


class Recipient(models.Model):
    """A party that an organization has billed instead of itself."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="recipients"
    )
    slug = models.CharField(max_length=63, validators=[SLUG])
    name = models.CharField(max_length=200)
    address = models.TextField(max_length=1000, blank=True, default="")
    tax_id = models.CharField(max_length=64, blank=True, default="")
    buyer_reference = models.CharField(max_length=100, blank=True, default="")
    contact = models.CharField(max_length=200, blank=True, default="")
    email = models.EmailField(blank=True, default="")
    cost_center = models.CharField(max_length=64, blank=True, default="")
    country = models.CharField(
        max_length=2, blank=True, default="", db_default="", validators=[COUNTRY]
    )
    """Of the address."""
    language = models.CharField(
        max_length=2, choices=Language.choices, blank=True, default="", db_default=""
    )
    """Of its documents; "" for that of its organization."""
    tax_country = models.CharField(max_length=2, blank=True, default="")
    """With the category, how it is taxed; "" for as its organization is."""
    tax_category = models.CharField(max_length=2, blank=True, default="")
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["organization__slug", "slug"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "slug"], name="recipient_unique"),
            models.CheckConstraint(
                condition=Q(tax_country="", tax_category="")
                | Q(tax_country__gt="", tax_category__in=["S", "Z", "E", "AE", "O"]),
                name="recipient_tax_is_whole",
            ),
        ]

    def __str__(self) -> str:
        """Return the organization and its slug."""
        return f"{self.organization}: {self.slug}"


class ProjectRoute(models.Model):
    """Which issuer bills a project, whom, and under which purchase order.

    A project without a row is billed by the site's issuer to its organization.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="routes")
    project = models.OneToOneField(Project, on_delete=models.PROTECT, related_name="route")
    issuer = models.ForeignKey(
        Issuer, on_delete=models.PROTECT, related_name="routes", null=True, blank=True
    )
    recipient = models.ForeignKey(
        Recipient, on_delete=models.PROTECT, related_name="routes", null=True, blank=True
    )
    purchase_order = models.CharField(max_length=PURCHASE_ORDER_LENGTH_MAX, blank=True, default="")
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["project__organization__slug", "project__slug"]

    def __str__(self) -> str:
        """Return the project and where it goes."""
        return f"{self.project}: {self.recipient or self.organization} {self.purchase_order}"


class RunRoute(models.Model):
    """The route of a project as a billing run froze it; a project without one has the default."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    period = models.ForeignKey(BillingPeriod, on_delete=models.PROTECT, related_name="routes")
    run = models.PositiveSmallIntegerField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="run_routes")
    issuer = models.ForeignKey(
        Issuer, on_delete=models.PROTECT, related_name="run_routes", null=True
    )
    recipient = models.ForeignKey(
        Recipient, on_delete=models.PROTECT, related_name="run_routes", null=True
    )
    purchase_order = models.CharField(max_length=PURCHASE_ORDER_LENGTH_MAX, blank=True, default="")

    class Meta:
        ordering = ["period", "run", "project"]
        constraints = [
            models.UniqueConstraint(fields=["period", "run", "project"], name="run_route_unique"),
        ]

    def __str__(self) -> str:
        """Return the project and the run."""
        return f"{self.project}: run {self.run} of {self.period}"
