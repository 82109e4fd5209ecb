"""Sealed hours written straight into metering's tables, for what is derived from them."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from metering.domain.catalogue.sizing import (
    DEFAULT_RULES,
    DEFAULT_VERSION,
    rule_to_json,
    rules_digest,
)
from metering.domain.corrections.correction import CorrectionCause, CorrectionState
from metering.models import (
    CatalogueVersion,
    DeviceEvent,
    DeviceUsage,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)
from metering.services.corrections.posting import Draft, write_drafts
from metering.services.corrections.review import ask_correction
from metering.services.efficiency.deriving import Derived, derive_windows
from tenants.domain.actors import Actor, ActorKind, system_actor
from tenants.models import Cluster, Organization, Project
from tests.support.builders import make_cluster, make_organization, make_project
from tests.support.metering.device_rows import make_device_usage
from tests.support.metering.usage_rows import insert_usage

DAY = datetime(2026, 10, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = system_actor("metering.tick")
BUSY, IDLE = Decimal("0.9"), Decimal(0)
H100 = "NVIDIA-H100-80GB-HBM3"


@dataclass
class WasteWorld:
    """A project on a cluster, with hours that are added one after another."""

    organization: Organization
    project: Project
    cluster: Cluster
    held: list[PodAllocation] = field(default_factory=list)

    def hold(self, name: str = "trainer-0", **fields: Any) -> PodAllocation:  # noqa: ANN401 - Columns.
        """Return a whole H100 held and running since a day before."""
        begin_at = fields.pop("begin_at", DAY - timedelta(days=1))
        defaults: dict[str, Any] = {
            "resource": "nvidia.com/gpu",
            "namespace": "llm",
            "pod_name": name,
            "node": "node-1",
            "source": "kubernetes",
            "units": 1,
            "size": "large",
            "price_group": "H100/whole",
            "sharing_mode": "whole",
            "product": H100,
            "catalogue_version": DEFAULT_VERSION,
            "begin_at": begin_at,
            "started_at": begin_at,
            "last_seen_at": begin_at,
        }
        pod = PodAllocation.objects.create(
            cluster=self.cluster, pod_uid=f"uid-{name}", **{**defaults, **fields}
        )
        self.held.append(pod)
        return pod

    def window(self, hour: int) -> MeteringWindow:
        """Return an hour of the day that still takes usage."""
        start_at = DAY + hour * HOUR
        return MeteringWindow.objects.create(
            cluster=self.cluster,
            start_at=start_at,
            state="collected",
            not_before=start_at + HOUR,
            as_of=start_at + HOUR,
        )

    def use(self, window: MeteringWindow, pod: PodAllocation, *, until: int = 3600) -> None:
        """Write what a pod used of an hour, from its bind to a second of the hour."""
        begin_at = max(window.start_at, pod.begin_at)
        end_at = window.start_at + timedelta(seconds=until)
        seconds = (end_at - begin_at) // timedelta(seconds=1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT metering_ensure_partitions(%s, 1)", [window.start_at])
            insert_usage(
                cursor,
                _USAGE,
                {
                    "window": window.pk,
                    "start": window.start_at,
                    "cluster": window.cluster_id,
                    "organization": self.organization.pk,
                    "project": self.project.pk,
                    "pod": pod.pk,
                    "begin": begin_at,
                    "end": end_at,
                    "seconds": seconds,
                },
            )

    def measure(
        self,
        window: MeteringWindow,
        pod: PodAllocation,
        activity: Decimal | None = BUSY,
        **fields: Any,  # noqa: ANN401 - Columns.
    ) -> DeviceUsage:
        """Write what a device of a pod did in an hour."""
        defaults: dict[str, Any] = {
            "node": pod.node,
            "uuid": f"GPU-{pod.pod_name}",
            "attribution": "exclusive",
            "namespace": pod.namespace,
            "pod_name": pod.pod_name,
            "pod_uid": pod.pod_uid,
            "resource": pod.resource,
            "organization": self.organization,
            "project": self.project,
            "begin_at": window.start_at,
            "end_at": window.start_at + HOUR,
            "busy_ratio": activity,
            "busy_coverage": Decimal(1),
            "memory_used_peak_mebibytes": 70_000 if activity else 4,
            "memory_total_mebibytes": 81_559,
            "power_mean_milliwatts": 600_000 if activity else 70_000,
        }
        return make_device_usage(window, **{**defaults, **fields})

    def fail(self, window: MeteringWindow, second: int, **fields: Any) -> DeviceEvent:  # noqa: ANN401
        """Return a failure of the trainer's GPU at a second of an hour."""
        defaults: dict[str, Any] = {
            "node": "node-1",
            "uuid": "GPU-trainer-0",
            "kind": "xid",
            "code": "79",
            "severity": "fail",
            "metric": "DCGM_FI_DEV_XID_ERRORS",
            "value_after": 79,
            "begin_at": window.start_at + timedelta(seconds=second),
        }
        return DeviceEvent.objects.create(
            cluster=self.cluster, window=window, **{**defaults, **fields}
        )

    def hour(self, hour: int, activity: Decimal | None = BUSY, **fields: Any) -> MeteringWindow:  # noqa: ANN401
        """Return a sealed hour in which every pod held on, its devices all alike."""
        window = self.window(hour)
        for pod in self.held:
            self.use(window, pod)
            if activity is not None:
                self.measure(window, pod, activity, **fields)
        return seal(window)


def make_catalogue() -> None:
    """Store the default catalogue unless it is there."""
    CatalogueVersion.objects.get_or_create(
        version=DEFAULT_VERSION,
        defaults={
            "rules": [rule_to_json(rule) for rule in DEFAULT_RULES],
            "digest": rules_digest(DEFAULT_RULES),
            "created_at": DAY,
        },
    )


def make_waste_world(slug: str = "acme", cluster: Cluster | None = None) -> WasteWorld:
    """Return a world without hours, with the default catalogue."""
    make_catalogue()
    organization = make_organization(slug)
    return WasteWorld(
        organization=organization,
        project=make_project(organization, "llm"),
        cluster=cluster or make_cluster("hopper"),
    )


def seal(window: MeteringWindow) -> MeteringWindow:
    """Return the window, sealed."""
    window.state, window.sealed_at = "sealed", window.start_at + 2 * HOUR
    window.save(update_fields=["state", "sealed_at"])
    return window


def correct(
    window: MeteringWindow,
    pod: PodAllocation,
    unit_seconds: int | None,
    at: datetime = DAY + timedelta(days=1),
) -> None:
    """Post a person's correction of a pod's use of a sealed hour; None takes all of it back."""
    used = UsageRecord.objects.filter(window=window, pod_uid=pod.pod_uid).latest("revision")
    ask_correction(
        record=used,
        unit_seconds=unit_seconds,
        reason="The source was wrong.",
        is_four_eyes=False,
        actor=TICK,
        at=at,
    )


def add_late(
    window: MeteringWindow, pod: PodAllocation, seconds: int, *, instead_of: int = 0
) -> None:
    """Post the first seconds of a sealed hour as what a source reported late of a pod.

    Args:
        window: The hour.
        pod: Who used it.
        seconds: What is known now.
        instead_of: What was known before.
    """
    world = Project.objects.get()
    line = {
        "organization_id": str(world.organization_id),
        "project_id": str(world.pk),
        "owner": "carol",
        "namespace": pod.namespace,
        "pod_name": pod.pod_name,
        "pod_uid": pod.pod_uid,
        "resource": pod.resource,
        "node": pod.node,
        "size": pod.size,
        "price_group": pod.price_group,
        "sharing_mode": pod.sharing_mode,
        "share_numerator": pod.share_numerator,
        "share_denominator": pod.share_denominator,
        "units": pod.units,
        "split_among": 1,
        "begin_at": window.start_at.isoformat(),
        "end_at": (window.start_at + timedelta(seconds=seconds)).isoformat(),
        "seconds": seconds,
        "unit_seconds": pod.units * (seconds - instead_of),
        "end_kind": "open" if seconds == 3600 else "exact",
        "slack_seconds": 0,
        "catalogue_version": pod.catalogue_version,
        "busy_ratio": None,
        "busy_coverage": None,
        "energy_millijoules": None,
        "basis": pod.units * instead_of,
    }
    draft = Draft(window, CorrectionCause.LATE_DATA, "Told late.", [line])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, 1)", [window.start_at])
        write_drafts([draft], state=CorrectionState.POSTED, actor=TICK, at=DAY + 24 * HOUR)


def derive(at: datetime = DAY + timedelta(days=2)) -> Derived:
    """Derive what follows from all that is sealed."""
    derived = derive_windows(actor=TICK, at=at)
    assert derived is not None
    return derived


def person(pk: int, label: str) -> Actor:
    """Return a person as an actor."""
    return Actor(kind=ActorKind.PERSON, id=str(pk), label=label)


_USAGE = """
SELECT %(window)s AS window_id, %(start)s AS window_start, %(cluster)s AS cluster_id,
       %(organization)s AS organization_id, %(project)s AS project_id, 'carol' AS owner,
       a.namespace, a.pod_name, a.pod_uid, a.resource, a.node, a.size, a.price_group,
       a.sharing_mode, a.share_numerator, a.share_denominator, a.units, %(begin)s AS begin_at,
       %(end)s AS end_at, %(seconds)s * a.units AS unit_seconds, 'open' AS end_kind,
       a.catalogue_version
  FROM metering_podallocation a WHERE a.id = %(pod)s
"""
