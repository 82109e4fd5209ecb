"""One row of everything that is derived from an hour, for tests that only need it to be there."""

from dataclasses import dataclass
from datetime import timedelta

from metering.models import (
    ClusterHealth,
    CreditProposal,
    DeviceEvent,
    MeteringWindow,
    UsageRecord,
    WasteFinding,
)
from tenants.models import Project


@dataclass(frozen=True)
class DerivedRows:
    """What was made."""

    event: DeviceEvent
    credit: CreditProposal
    finding: WasteFinding


def make_derived_rows(window: MeteringWindow, project: Project, *, owner: str = "") -> DerivedRows:
    """Return a failure, a proposed credit and an idle pod of a project's usage in an hour."""
    used = UsageRecord.objects.filter(window=window, project=project).earliest("pk")
    end_at = window.start_at + timedelta(hours=1)
    event = DeviceEvent.objects.create(
        cluster=window.cluster,
        window=window,
        node="node-1",
        uuid=f"GPU-{project.pk}",
        kind="xid",
        code="79",
        severity="fail",
        begin_at=window.start_at,
        metric="DCGM_FI_DEV_XID_ERRORS",
        value_after=79,
    )
    ClusterHealth.objects.get_or_create(
        window=window,
        defaults={
            "window_start": window.start_at,
            "cluster": window.cluster,
            "nodes": 1,
            "created_at": end_at,
        },
    )
    shared = {
        "cluster": window.cluster,
        "organization": project.organization,
        "project": project,
        "owner": owner,
        "namespace": project.slug,
        "pod_name": f"{project.slug}-0",
        "pod_uid": used.pod_uid,
        "resource": used.resource,
        "size": used.size,
        "price_group": used.price_group,
        "created_at": end_at,
    }
    return DerivedRows(
        event=event,
        credit=CreditProposal.objects.create(
            event=event,
            window=window,
            window_start=window.start_at,
            usage_record=used.pk,
            unit_seconds=used.unit_seconds,
            is_certain=True,
            **shared,
        ),
        finding=WasteFinding.objects.create(
            rule="idle",
            from_at=window.start_at,
            until_at=end_at,
            units=used.units,
            held_unit_seconds=used.unit_seconds,
            wasted_unit_seconds=used.unit_seconds,
            **shared,
        ),
    )
