"""Writing projects: made inside an active organization, described, closed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from tenants.domain.actors import Actor
from tenants.domain.refusals import OpenBindingsError, OrganizationClosedError, SlugTakenError
from tenants.models import NamespaceBinding, Organization, Project
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import add_row, change_row, require_version

EDITABLE: Final = ("name", "cost_center")


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
    (row,) = lock_rows(Project.objects.filter(pk=project.pk))
    require_version(row=row, expected_version=expected_version, actor=actor)
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
    (row,) = lock_rows(Project.objects.filter(pk=project.pk))
    require_version(row=row, expected_version=expected_version, actor=actor)
    bound = NamespaceBinding.objects.filter(
        project=row, valid__overlap=DateTimeTZRange(at, None)
    ).count()
    if bound:
        raise OpenBindingsError(
            f"{row.name} has {bound} namespaces bound to it.", facts={"bound_namespaces": bound}
        )
    return change_row(
        row=row,
        changes={"state": LifecycleState.CLOSED.value},
        verb="close",
        actor=actor,
        at=at,
        organization_id=row.organization_id,
    )
