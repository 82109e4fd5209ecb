"""What binds and what is taken, for limits that are shown one by one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from quotas.domain.headroom.headroom import Headroom
from quotas.domain.limits.tally import TallyKey, UseByLimit
from quotas.models import QuotaLimit
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force
from quotas.selectors.limits.units_now import units_now


@dataclass(frozen=True)
class LimitUse:
    """One limit as it binds now, and what counts against it."""

    in_force: LimitInForce
    headroom: Headroom


def limit_use(
    limits: Sequence[QuotaLimit], *, at: datetime, burst_classes: Collection[str]
) -> Mapping[UUID, LimitUse]:
    """Return what binds and what is taken, by limit id; three statements.

    Args:
        limits: Which ones.
        at: When, UTC.
        burst_classes: Priority classes of preemptible pods.
    """
    if not limits:
        return {}
    organization_ids = {limit.organization_id for limit in limits}
    tally = UseByLimit(
        units_now(at=at, organization_ids=organization_ids, burst_classes=burst_classes)
    )
    wanted = {limit.pk for limit in limits}
    return {
        one.limit_id: LimitUse(one, _headroom(one, tally))
        for one in limits_in_force(at=at, organization_ids=organization_ids)
        if one.limit_id in wanted
    }


def _headroom(limit: LimitInForce, tally: UseByLimit) -> Headroom:
    taken = tally.taken(
        TallyKey(
            limit.organization_id,
            limit.project_id,
            limit.username,
            limit.size,
            limit.model_group,
            limit.cluster_id,
        )
    )
    return Headroom(
        limit_units=limit.nominal_units,
        used_units=taken.held_units,
        reserved_units=taken.reserved_units,
        burst_limit_units=limit.burst_units,
        burst_used_units=taken.burst_units,
    )
