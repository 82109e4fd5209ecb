"""Where a request stands: what binds there now, what is taken of it, and what would be left."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from quotas.models import QuotaLimit, QuotaRequest
from quotas.selectors.limit_use import limit_use


@dataclass(frozen=True)
class Standing:
    """What a person who decides looks at first.

    Attributes:
        limit_units: In force now; None when unset or unlimited.
        is_set: Whether there is a limit at all.
        set_units: What the limit itself says, without grants; None when unset or unlimited.
        burst_units: Burst units of the limit; None when unset.
        taken_units: Held by pods or reserved for them.
        left_units: What could still be started if it were approved; None where nothing is set yet.
    """

    is_set: bool
    limit_units: int | None
    set_units: int | None
    burst_units: int | None
    taken_units: int
    left_units: int | None


def standing_of(request: QuotaRequest, *, at: datetime, burst_classes: Collection[str]) -> Standing:
    """Return where a request stands now; four statements.

    Args:
        request: Which one.
        at: When, UTC.
        burst_classes: Priority classes of preemptible pods.
    """
    limit = QuotaLimit.objects.filter(
        organization=request.organization,
        project=request.project,
        user=request.user,
        size=request.size,
        model_group=request.model_group,
        cluster=request.cluster,
    ).first()
    if limit is None:
        return Standing(
            is_set=False,
            limit_units=None,
            set_units=None,
            burst_units=None,
            taken_units=0,
            left_units=None,
        )
    use = limit_use([limit], at=at, burst_classes=burst_classes)[limit.pk]
    taken = use.headroom.used_units + use.headroom.reserved_units
    return Standing(
        is_set=True,
        limit_units=use.in_force.nominal_units,
        set_units=limit.limit_units,
        burst_units=limit.burst_units,
        taken_units=taken,
        left_units=max(0, request.requested_units - taken),
    )
