"""Write organizations and their projects: created, described, closed."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.domain.errors import FieldProblem
from tenants.domain.refusals import (
    OpenBindingsError,
    OpenProjectsError,
    OrganizationClosedError,
    SlugTakenError,
)
from tenants.models import NamespaceBinding, Organization, Project
from tenants.models.organization import CURRENCY, Language, LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import (
    add_row,
    change_row,
    close_row,
    lock_version,
    require_editable,
)

ORGANIZATION_EDITABLE: Final = (
    "name",
    "cost_center",
    "billing_contact",
    "billing_email",
    "billing_address",
    "tax_id",
    "country",
    "language",
)
"""Currency and zone are not among them: months already billed depend on both."""
PROJECT_EDITABLE: Final = ("name", "cost_center")


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
    country: str = "",
    language: str = Language.ENGLISH.value,
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
        country: Of the address, ISO 3166-1 alpha-2.
        language: Of its documents, "en" or "de".
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
        country=country,
        language=language,
        created_at=at,
    )
    problems = (*_currency_problems(billing_currency), *_zone_problems(time_zone))
    refuse_invalid(organization, further=problems)
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
        changes: New values by field, of `ORGANIZATION_EDITABLE`.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The caller.
        at: When, UTC.

    Raises:
        ValueError: A field is not editable.
        StaleVersionError: It was changed in the meantime.
        InvalidInputError: The values are wrong; every problem is listed.
    """
    require_editable(changes, ORGANIZATION_EDITABLE)
    row = lock_version(organization, expected_version=expected_version, actor=actor)
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
    row = lock_version(organization, expected_version=expected_version, actor=actor)
    open_projects = Project.objects.filter(organization=row, state=LifecycleState.ACTIVE).count()
    if open_projects:
        raise OpenProjectsError(
            f"{row.name} has {open_projects} active projects.",
            facts={"open_projects": open_projects},
        )
    return close_row(row=row, actor=actor, at=at, organization_id=row.id)


@transaction.atomic
def create_project(
    *,
    organization: Organization,
    slug: str,
    name: str,
    cost_center: str = "",
    actor: Actor,
    at: datetime,
) -> Project:
    """Create a project of an organization; it never moves to another.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        OrganizationClosedError: The organization is closed.
        SlugTakenError: The organization has a project with this slug.
    """
    project = Project(
        organization=organization, slug=slug, name=name, cost_center=cost_center, created_at=at
    )
    refuse_invalid(project)
    (owner,) = lock_rows(Organization.objects.filter(pk=organization.pk))
    if owner.state != LifecycleState.ACTIVE:
        raise OrganizationClosedError(f"{owner.name} is closed.", field="organization")
    add_row(
        row=project,
        refusals={
            "project_slug_unique_in_organization": SlugTakenError(
                f'The organization has a project with the slug "{slug}".', field="slug"
            )
        },
        actor=actor,
        at=at,
        organization_id=owner.id,
        facts={"slug": slug, "cost_center": cost_center},
    )
    return project


@transaction.atomic
def update_project(
    *,
    project: Project,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> Project:
    """Change how a project is described.

    Args:
        project: Which one.
        changes: New values by field, of `PROJECT_EDITABLE`.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The caller.
        at: When, UTC.

    Raises:
        ValueError: A field is not editable.
        StaleVersionError: It was changed in the meantime.
        InvalidInputError: The values are wrong; every problem is listed.
    """
    require_editable(changes, PROJECT_EDITABLE)
    row = lock_version(project, expected_version=expected_version, actor=actor)
    return change_row(
        row=row,
        changes=changes,
        verb="update",
        actor=actor,
        at=at,
        organization_id=row.organization_id,
    )


@transaction.atomic
def close_project(
    *, project: Project, expected_version: int | None = None, actor: Actor, at: datetime
) -> Project:
    """Close a project: nothing is bound to it any more. Closing twice is nothing.

    Raises:
        StaleVersionError: It was changed in the meantime.
        OpenBindingsError: A namespace is bound to it now or later.
    """
    lock_rows(Organization.objects.filter(pk=project.organization_id))
    row = lock_version(project, expected_version=expected_version, actor=actor)
    bound = NamespaceBinding.objects.filter(
        project=row, valid__overlap=DateTimeTZRange(at, None)
    ).count()
    if bound:
        raise OpenBindingsError(
            f"{row.name} has {bound} namespaces bound to it.", facts={"bound_namespaces": bound}
        )
    return close_row(row=row, actor=actor, at=at, organization_id=row.organization_id)


def _currency_problems(code: str) -> tuple[FieldProblem, ...]:
    """Return the problem of three letters that no currency has; a field reports other shapes."""
    if code in MINOR_DIGITS or not re.fullmatch(CURRENCY.regex, code):
        return ()
    message = f'"{code}" is not an active currency of ISO 4217, such as "EUR".'
    return (FieldProblem("billing_currency", "unknown_currency", message),)


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
