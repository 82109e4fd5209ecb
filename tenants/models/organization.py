"""Organizations, the billed customers, and the projects that divide their usage."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id

SLUG = RegexValidator(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes.")
COUNTRY = RegexValidator(r"^[A-Z]{2}$", "Use the two capital letters of ISO 3166-1, such as DE.")
CURRENCY = RegexValidator(r"^[A-Z]{3}$", "Use the three letters of ISO 4217.")


class LifecycleState(models.TextChoices):
    """Whether something still takes part."""

    ACTIVE = "active"
    CLOSED = "closed"


class Language(models.TextChoices):
    """A language that documents are printed in."""

    ENGLISH = "en", "English"
    GERMAN = "de", "German"


class Organization(models.Model):
    """A body that is billed in one currency, for months of one time zone."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    billing_currency = models.CharField(max_length=3, validators=[CURRENCY])
    time_zone = models.CharField(max_length=64, default="UTC")
    cost_center = models.CharField(max_length=64, blank=True, default="")
    billing_contact = models.CharField(max_length=200, blank=True, default="")
    billing_email = models.EmailField(blank=True, default="")
    billing_address = models.TextField(blank=True, default="")
    tax_id = models.CharField(max_length=64, blank=True, default="")
    country = models.CharField(
        max_length=2, blank=True, default="", db_default="", validators=[COUNTRY]
    )
    """Of the billing address."""
    language = models.CharField(
        max_length=2,
        choices=Language.choices,
        default=Language.ENGLISH,
        db_default=Language.ENGLISH.value,
    )
    """Of its documents."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(billing_currency__regex=r"^[A-Z]{3}$"),
                name="organization_currency_is_iso_4217",
                violation_error_message="Use the three letters of ISO 4217.",
            ),
        ]

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name


class Project(models.Model):
    """A body of work inside one organization; it never moves to another."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="projects"
    )
    slug = models.CharField(max_length=63, validators=[SLUG])
    name = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    cost_center = models.CharField(max_length=64, blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"],
                name="project_slug_unique_in_organization",
                violation_error_message="The organization has a project with this slug.",
            ),
        ]

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name
