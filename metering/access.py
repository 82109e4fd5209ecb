"""The only way from an entry point to what was metered: fetch with permission.

Usage belongs to projects and is visible to those who may read the project's usage. Windows and
capacity belong to the platform. An exception belongs to the cluster until its namespace is bound;
then it is visible with the project's exceptions, in the hours of the binding.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from metering.domain.devices.figures import Attribution
from metering.models import (
    CapacityRecord,
    CatalogueVersion,
    ClusterHealth,
    CreditProposal,
    DeviceEvent,
    DeviceUsage,
    MeteringException,
    MeteringWindow,
    UsageCorrection,
    UsageRecord,
    WasteFinding,
)
from metering.selectors.explain import PodExplanation, PodName, explain_pod
from tenants.access import (
    build_access,
    build_read_access,
    is_platform_wide,
    projects_visible_to,
    require_capability,
    scope_to_platform,
    scope_to_projects,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.identity.granting import forbidden
from tenants.domain.identity.roles import RoleScope
from tenants.models import NamespaceBinding

READ_USAGE: Final = "metering:usage:read"
READ_WINDOW: Final = "metering:window:read"
WRITE_WINDOW: Final = "metering:window:write"
READ_EXCEPTION: Final = "metering:exception:read"
WRITE_EXCEPTION: Final = "metering:exception:write"
WRITE_CORRECTION: Final = "metering:correction:write"
READ_CAPACITY: Final = "metering:capacity:read"
READ_DEVICE_EVENT: Final = "metering:device_event:read"
WRITE_DEVICE_EVENT: Final = "metering:device_event:write"
READ_HEALTH: Final = "metering:health:read"
READ_WASTE: Final = "metering:waste:read"
DISMISS_WASTE: Final = "metering:waste:dismiss"
READ_CREDIT: Final = "metering:credit:read"
DECIDE_CREDIT: Final = "metering:credit:decide"
READ_CATALOGUE: Final = "metering:catalogue:read"
WRITE_CATALOGUE: Final = "metering:catalogue:write"


def usage_visible_to(actor: Actor, capability: str = READ_USAGE) -> QuerySet[UsageRecord]:
    """Return the usage of the projects an actor reaches."""
    rows = UsageRecord.objects.select_related("activity")
    if not is_platform_wide(actor, capability):
        # Records are found by organization: their project is on another table.
        reached = projects_visible_to(actor, capability)
        rows = rows.filter(organization__in=reached.values("organization_id"))
    return scope_to_projects(rows, actor, capability)


def corrections_visible_to(actor: Actor, capability: str = READ_USAGE) -> QuerySet[UsageCorrection]:
    """Return the corrections of usage of the projects an actor reaches."""
    return scope_to_projects(UsageCorrection.objects.all(), actor, capability)


def windows_visible_to(actor: Actor, capability: str = READ_WINDOW) -> QuerySet[MeteringWindow]:
    """Return every window to an actor of the platform, none to others."""
    return scope_to_platform(MeteringWindow.objects.all(), actor, capability)


def capacity_visible_to(actor: Actor) -> QuerySet[CapacityRecord]:
    """Return every capacity record to an actor of the platform, none to others."""
    return scope_to_platform(CapacityRecord.objects.all(), actor, READ_CAPACITY)


def device_usage_visible_to(actor: Actor) -> QuerySet[DeviceUsage]:
    """Return every device to an actor of the platform, to others those of their own pods alone."""
    if is_platform_wide(actor, READ_CAPACITY):
        return DeviceUsage.objects.all()
    return DeviceUsage.objects.filter(
        attribution=Attribution.EXCLUSIVE.value,
        project__in=projects_visible_to(actor, READ_USAGE).values("pk"),
    )


def exceptions_visible_to(
    actor: Actor, capability: str = READ_EXCEPTION
) -> QuerySet[MeteringException]:
    """Return the exceptions about namespaces of the projects an actor reaches, at their hour."""
    if is_platform_wide(actor, capability):
        return MeteringException.objects.all()
    bound = NamespaceBinding.objects.filter(
        cluster_id=OuterRef("cluster_id"),
        namespace=OuterRef("namespace"),
        valid__contains=OuterRef("window_start"),
        project__in=projects_visible_to(actor, capability).values("pk"),
    )
    return MeteringException.objects.filter(Exists(bound))


def catalogue_versions_visible_to(actor: Actor) -> QuerySet[CatalogueVersion]:
    """Return every catalogue version if the actor holds the capability anywhere, else none."""
    if actor.is_system or actor.grants_for(READ_CATALOGUE):
        return CatalogueVersion.objects.all()
    return CatalogueVersion.objects.none()


def device_events_visible_to(
    actor: Actor, capability: str = READ_DEVICE_EVENT
) -> QuerySet[DeviceEvent]:
    """Return every device event to an actor of the platform, none to others."""
    return scope_to_platform(DeviceEvent.objects.all(), actor, capability)


def health_visible_to(actor: Actor) -> QuerySet[ClusterHealth]:
    """Return the health of every cluster to an actor of the platform, none to others."""
    return scope_to_platform(ClusterHealth.objects.all(), actor, READ_HEALTH)


def waste_visible_to(actor: Actor, capability: str = READ_WASTE) -> QuerySet[WasteFinding]:
    """Return the waste findings about the projects over which an actor holds a capability."""
    return scope_to_projects(WasteFinding.objects.all(), actor, capability)


def credits_visible_to(actor: Actor, capability: str = READ_CREDIT) -> QuerySet[CreditProposal]:
    """Return the credit proposals of the projects over which an actor holds a capability."""
    return scope_to_projects(CreditProposal.objects.select_related("event"), actor, capability)


access_correction: Final = build_access(corrections_visible_to)
access_window: Final = build_access(windows_visible_to, "cluster")
access_exception: Final = build_access(exceptions_visible_to)
access_catalogue_version: Final = build_read_access(catalogue_versions_visible_to)
access_device_event: Final = build_access(device_events_visible_to)
access_waste: Final = build_access(waste_visible_to)
access_credit: Final = build_access(credits_visible_to)
_access_usage_record: Final = build_access(usage_visible_to)


def access_usage_record(actor: Actor, record_id: int, capability: str = READ_USAGE) -> UsageRecord:
    """Return one usage record over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return _access_usage_record(actor, record_id, capability)


def access_incident(
    actor: Actor, incident_id: UUID, capability: str = READ_EXCEPTION
) -> QuerySet[MeteringException]:
    """Return the exceptions of an incident over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees some of it without holding the capability.
    """
    rows = exceptions_visible_to(actor, capability).filter(incident=incident_id)
    if not rows.exists():
        if exceptions_visible_to(actor).filter(incident=incident_id).exists():
            raise forbidden(capability, reach={RoleScope.PLATFORM})
        raise NotFoundError("There is no such incident.")
    return rows


def allow_catalogue_edit(actor: Actor) -> None:
    """Let pass who may edit the catalogue, which is the platform's.

    Raises:
        ForbiddenError: The actor does not hold the capability over the whole platform.
    """
    require_capability(actor, WRITE_CATALOGUE)


def access_pod_explanation(
    actor: Actor, pod: PodName, *, begin_at: datetime, end_at: datetime
) -> PodExplanation:
    """Return why a pod was or was not charged, if the actor may read its namespace's usage.

    A pod in another tenant's namespace is answered like one that never existed.

    Raises:
        NotFoundError: The pod is not one of the actor's.
    """
    found = explain_pod(pod, begin_at=begin_at, end_at=end_at)
    if is_platform_wide(actor, READ_USAGE):
        return found
    bound = NamespaceBinding.objects.filter(
        cluster_id=pod.cluster_id,
        namespace__in=found.namespaces or {pod.namespace},
        valid__overlap=(begin_at, end_at),
    )
    own = bound.filter(project__in=projects_visible_to(actor, READ_USAGE).values("pk"))
    if not bound.exists() or bound.exclude(pk__in=own.values("pk")).exists():
        raise NotFoundError("There is no such pod.")
    return found
