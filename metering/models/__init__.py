"""Tables of metering and their constraints."""

from metering.domain.exceptions import ExceptionKind
from metering.domain.window_state import WindowState
from metering.models.allocation import PodAllocation
from metering.models.capacity import CapacityRecord
from metering.models.catalogue import CatalogueVersion
from metering.models.exception import ExceptionState, MeteringException
from metering.models.usage import UsageRecord
from metering.models.watch import (
    ClaimConsumer,
    ClusterWatch,
    NodeRecord,
    QueuedPod,
    WatchCursor,
    WatchSpan,
)
from metering.models.window import MeteringWindow

__all__ = [
    "CapacityRecord",
    "CatalogueVersion",
    "ClaimConsumer",
    "ClusterWatch",
    "ExceptionKind",
    "ExceptionState",
    "MeteringException",
    "MeteringWindow",
    "NodeRecord",
    "PodAllocation",
    "QueuedPod",
    "UsageRecord",
    "WatchCursor",
    "WatchSpan",
    "WindowState",
]
