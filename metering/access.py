"""The only way from an entry point to what was metered: fetch with permission.

Usage belongs to projects and is seen by whoever may read a project's usage. Windows and capacity
belong to the platform. An exception belongs to the cluster until its namespace is bound; whoever
reads a project's exceptions sees those of the project's namespaces in the hours they were bound.
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
    access_row,
    access_seen,
    is_platform_wide,
    projects_visible_to,
    require_capability,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
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
    reached = projects_visible_to(actor, capability)
    return rows if is_platform_wide(actor, capability) else rows.filter(project__in=reached)


def windows_visible_to(actor: Actor, capability: str = READ_WINDOW) -> QuerySet[MeteringWindow]:
    """Return every window to an actor of the platform, none to others."""
    if is_platform_wide(actor, capability):
        return MeteringWindow.objects.all()
    return MeteringWindow.objects.none()


def capacity_visible_to(actor: Actor) -> QuerySet[CapacityRecord]:
    """Return every capacity record to an actor of the platform, none to others."""
    if is_platform_wide(actor, READ_CAPACITY):
        return CapacityRecord.objects.all()
    return CapacityRecord.objects.none()


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


def access_usage_record(actor: Actor, record_id: int, capability: str = READ_USAGE) -> UsageRecord:
    """Return one usage record over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        UsageRecord.objects.select_related("activity"),
        record_id,
        visible_to=usage_visible_to,
        actor=actor,
        capability=capability,
    )


def corrections_visible_to(actor: Actor, capability: str = READ_USAGE) -> QuerySet[UsageCorrection]:
    """Return the corrections of usage of the projects an actor reaches."""
    rows, reached = UsageCorrection.objects.all(), projects_visible_to(actor, capability)
    return rows if is_platform_wide(actor, capability) else rows.filter(project__in=reached)


def access_correction(actor: Actor, correction_id: UUID, capability: str) -> UsageCorrection:
    """Return one correction over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        UsageCorrection.objects.all(),
        correction_id,
        visible_to=corrections_visible_to,
        actor=actor,
        capability=capability,
    )


def access_window(actor: Actor, window_id: int, capability: str) -> MeteringWindow:
    """Return one window over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        MeteringWindow.objects.select_related("cluster"),
        window_id,
        visible_to=windows_visible_to,
        actor=actor,
        capability=capability,
    )


def access_exception(actor: Actor, exception_id: int, capability: str) -> MeteringException:
    """Return one exception over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        MeteringException.objects.all(),
        exception_id,
        visible_to=exceptions_visible_to,
        actor=actor,
        capability=capability,
    )


def catalogue_versions_visible_to(actor: Actor) -> QuerySet[CatalogueVersion]:
    """Return every catalogue version to whoever holds the capability anywhere, none to others."""
    if actor.is_system or actor.grants_for(READ_CATALOGUE):
        return CatalogueVersion.objects.all()
    return CatalogueVersion.objects.none()


def access_catalogue_version(actor: Actor, version: int) -> CatalogueVersion:
    """Return one catalogue version an actor sees.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(catalogue_versions_visible_to(actor), version)


def allow_catalogue_edit(actor: Actor) -> None:
    """Let pass who may edit the catalogue, which is the platform's.

    Raises:
        ForbiddenError: The actor does not hold the capability over the whole platform.
    """
    require_capability(actor, WRITE_CATALOGUE)


def access_pod_explanation(
    actor: Actor, pod: PodName, *, begin_at: datetime, end_at: datetime
) -> PodExplanation:
    """Return why a pod was or was not charged, to whoever reads the use of its namespace.

    A pod whose rows lie in a namespace of somebody else is told as one that was not seen.

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


def device_events_visible_to(
    actor: Actor, capability: str = READ_DEVICE_EVENT
) -> QuerySet[DeviceEvent]:
    """Return every device event to an actor of the platform, none to others."""
    rows = DeviceEvent.objects.all()
    return rows if is_platform_wide(actor, capability) else rows.none()


def health_visible_to(actor: Actor) -> QuerySet[ClusterHealth]:
    """Return the health of every cluster to an actor of the platform, none to others."""
    rows = ClusterHealth.objects.all()
    return rows if is_platform_wide(actor, READ_HEALTH) else rows.none()


def waste_visible_to(actor: Actor, capability: str = READ_WASTE) -> QuerySet[WasteFinding]:
    """Return the waste findings about the projects over which an actor holds a capability."""
    rows = WasteFinding.objects.all()
    if is_platform_wide(actor, capability):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, capability).values("pk"))


def credits_visible_to(actor: Actor, capability: str = READ_CREDIT) -> QuerySet[CreditProposal]:
    """Return the credit proposals of the projects over which an actor holds a capability."""
    rows = CreditProposal.objects.select_related("event")
    if is_platform_wide(actor, capability):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, capability).values("pk"))


def access_device_event(actor: Actor, event_id: int, capability: str) -> DeviceEvent:
    """Return one device event over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        DeviceEvent.objects.all(),
        event_id,
        visible_to=device_events_visible_to,
        actor=actor,
        capability=capability,
    )


def access_waste(actor: Actor, finding_id: int, capability: str) -> WasteFinding:
    """Return one waste finding over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        WasteFinding.objects.all(),
        finding_id,
        visible_to=waste_visible_to,
        actor=actor,
        capability=capability,
    )


def access_credit(actor: Actor, proposal_id: int, capability: str) -> CreditProposal:
    """Return one credit proposal over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        CreditProposal.objects.select_related("event"),
        proposal_id,
        visible_to=credits_visible_to,
        actor=actor,
        capability=capability,
    )
