"""Writing organizations: made, described, closed."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem
from tenants.domain.refusals import OpenProjectsError, SlugTakenError
from tenants.models import Organization, Project
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import add_row, change_row, require_version

EDITABLE: Final = (
    "name",
    "cost_center",
    "billing_contact",
    "billing_email",
    "billing_address",
    "tax_id",
)
"""Currency and zone are not among them: months already billed depend on both."""


@transaction.atomic
def create_organization(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    slug: str,
    name: str,
    billing_currency: str,
    time_zone: str = "UTC",
    cost_center: str = "",
    billing_contact: str = "",
    billing_email: str = "",
    billing_address: str = "",
    tax_id: str = "",
    actor: Actor,
    at: datetime,
) -> Organization:
    """Create an organization.

    Args:
        slug: Its short name, unique on the platform.
        name: What people call it.
        billing_currency: Three letters of ISO 4217; kept for ever.
        time_zone: An IANA zone whose months are billed; kept for ever.
        cost_center: Its own reference, printed on invoices.
        billing_contact: The receiver of invoices.
        billing_email: Where they are sent.
        billing_address: The address on them.
        tax_id: The tax number on them.
        actor: The caller.
        at: When, UTC.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        SlugTakenError: Another organization has the slug.
    """
    organization = Organization(
        slug=slug,
        name=name,
        billing_currency=billing_currency,
        time_zone=time_zone,
        cost_center=cost_center,
        billing_contact=billing_contact,
        billing_email=billing_email,
        billing_address=billing_address,
        tax_id=tax_id,
        created_at=at,
    )
    refuse_invalid(organization, further=_zone_problems(time_zone))
    add_row(
        row=organization,
        refusals={
            "tenants_organization_slug_key": SlugTakenError(
                f'An organization has the slug "{slug}".', field="slug"
            )
        },
        actor=actor,
        at=at,
        organization_id=organization.id,
        facts={"slug": slug, "billing_currency": billing_currency, "time_zone": time_zone},
    )
    return organization


@transaction.atomic
def update_organization(
    *,
    organization: Organization,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> Organization:
    """Change how an organization is described.

    Args:
        organization: Which one.
        changes: New values by field, of `EDITABLE`.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The caller.
        at: When, UTC.

    Raises:
        ValueError: A field is not editable.
        StaleVersionError: It was changed in the meantime.
        InvalidInputError: The values are wrong; every problem is listed.
    """
    if not set(changes) <= set(EDITABLE):
        raise ValueError("A field is not editable.")
    (row,) = lock_rows(Organization.objects.filter(pk=organization.pk))
    require_version(row=row, expected_version=expected_version, actor=actor)
    return change_row(
        row=row, changes=changes, verb="update", actor=actor, at=at, organization_id=row.id
    )


@transaction.atomic
def close_organization(
    *,
    organization: Organization,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> Organization:
    """Close an organization: nothing new is accepted; its debts stay. Idempotent.

    Raises:
        StaleVersionError: It was changed in the meantime.
        OpenProjectsError: It has active projects.
    """
    (row,) = lock_rows(Organization.objects.filter(pk=organization.pk))
    require_version(row=row, expected_version=expected_version, actor=actor)
    open_projects = Project.objects.filter(organization=row, state=LifecycleState.ACTIVE).count()
    if open_projects:
        raise OpenProjectsError(
            f"{row.name} has {open_projects} active projects.",
            facts={"open_projects": open_projects},
        )
    return change_row(
        row=row,
        changes={"state": LifecycleState.CLOSED.value},
        verb="close",
        actor=actor,
        at=at,
        organization_id=row.id,
    )


def _zone_problems(name: str) -> tuple[FieldProblem, ...]:
    """Return the problem of a zone that this machine's IANA database does not know."""
    if name in _zones():
        return ()
    message = f'"{name}" is not an IANA time zone, such as "Europe/Berlin".'
    return (FieldProblem("time_zone", "unknown_time_zone", message),)


@cache
def _zones() -> frozenset[str]:
    """Return every zone's name; read once, since the listing walks a folder."""
    return frozenset(available_timezones()) - {"localtime"}
