"""Device events: the levels that are known already, so that an old one is not told again."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from metering.domain.device_events import LevelKey
from metering.models import DeviceEvent


def known_levels(cluster_id: UUID, *, before: datetime) -> dict[LevelKey, Decimal]:
    """Return the level each metric of a device last rose to before a time, in one statement."""
    rows = (
        DeviceEvent.objects.filter(cluster_id=cluster_id, begin_at__lt=before)
        .order_by("uuid", "instance_id", "metric", "-begin_at", "-pk")
        .distinct("uuid", "instance_id", "metric")
        .values_list("uuid", "instance_id", "metric", "value_after")
    )
    return {(uuid, instance, metric): value for uuid, instance, metric, value in rows}
