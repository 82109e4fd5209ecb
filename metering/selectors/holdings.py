"""What exceptions of a sealed window keep off the bill, by the pod's resource they are about."""

from collections import defaultdict
from collections.abc import Mapping

from metering.domain.exceptions import SIDED_KINDS, is_machines_resolution, pod_subject
from metering.domain.releasing import Holding
from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
)


def holdings_of(window: MeteringWindow) -> Mapping[str, Holding]:
    """Return what was held in a window by subject, resolved exceptions too; two statements."""
    decided = {
        pod_subject(uid=uid, resource=resource)
        for uid, resource in ReconciliationDecision.objects.filter(
            cluster_id=window.cluster_id, window_start=window.start_at
        ).values_list("pod_uid", "resource")
    }
    disputed: set[str] = set()
    left_off: dict[str, int] = defaultdict(int)
    rows = MeteringException.objects.filter(window_id=window.pk, held_unit_seconds__gt=0)
    for kind, subject, state, resolution, held in rows.values_list(
        "kind", "subject", "state", "resolution", "held_unit_seconds"
    ):
        is_sided = kind in SIDED_KINDS
        left_off[subject] += 0
        if is_sided and subject in decided:
            continue
        if state == ExceptionState.OPEN and is_sided:
            disputed.add(subject)
        elif state != ExceptionState.OPEN and not is_machines_resolution(resolution):
            left_off[subject] += held
    return {
        subject: Holding(is_disputed=subject in disputed, left_off_unit_seconds=held)
        for subject, held in left_off.items()
    }
