"""Access to scheduled exports: they are of the platform, of whichever organization the data is."""

from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from billing.access import READ_CHARGE, access_billed
from billing.models import ExportFile, ExportRun, ExportSchedule
from tenants.access import (
    build_access,
    build_read_access,
    organizations_visible_to,
    require_capability,
    scope_to_platform,
)
from tenants.domain.actors import Actor

READ_EXPORT: Final = "billing:export:read"
WRITE_EXPORT: Final = "billing:export:write"


def schedules_visible_to(actor: Actor, capability: str = READ_EXPORT) -> QuerySet[ExportSchedule]:
    """Return all schedules to people of the platform that hold a capability."""
    rows = ExportSchedule.objects.select_related("organization")
    return scope_to_platform(rows, actor, capability)


def runs_visible_to(actor: Actor, capability: str = READ_EXPORT) -> QuerySet[ExportRun]:
    """Return all runs with their files, likewise."""
    rows = ExportRun.objects.select_related("schedule").prefetch_related("files")
    return scope_to_platform(rows, actor, capability)


def files_visible_to(actor: Actor, capability: str = READ_EXPORT) -> QuerySet[ExportFile]:
    """Return the files of all runs, likewise."""
    rows = ExportFile.objects.select_related("run")
    return scope_to_platform(rows, actor, capability)


def access_charged(actor: Actor, slug: str = "") -> list[UUID]:
    """Return the organizations of which an actor reads bills and charges, by slug; or one of them.

    Charges name persons: a token that is limited to bills reads no file with charges.

    Raises:
        NotFoundError: There is none of this slug for this actor.
        ForbiddenError: The actor reads bills, or charges, of none.
    """
    billed = access_billed(actor, slug)
    rows = organizations_visible_to(actor, READ_CHARGE).filter(pk__in=billed)
    found = list(rows.order_by("slug").values_list("pk", flat=True))
    if billed and not found:
        require_capability(actor, READ_CHARGE, organization_id=billed[0])
    return found


access_schedule: Final = build_access(schedules_visible_to)
access_run: Final = build_access(runs_visible_to)
access_file: Final = build_read_access(files_visible_to)
