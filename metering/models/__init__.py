"""Tables of metering and their constraints."""

from metering.domain.collection.windows import WindowState
from metering.domain.corrections.exceptions import ExceptionKind
from metering.models.allocation import NodeLabelSet, PodAllocation
from metering.models.capacity import CapacityRecord, ClusterHealth
from metering.models.catalogue import CatalogueVersion
from metering.models.correction import UsageCorrection, WindowRecheck
from metering.models.credit import CreditProposal, CreditState
from metering.models.device_event import DeviceEvent
from metering.models.device_usage import DeviceUsage, DeviceWindow, UsageActivity
from metering.models.division import WindowDivision, WindowPart
from metering.models.exception import ExceptionState, MeteringException, ReconciliationDecision
from metering.models.usage import UsageRecord
from metering.models.waste import WasteFinding, WasteState
from metering.models.watch import (
    ClaimConsumer,
    ClusterWatch,
    DeviceClass,
    NodeRecord,
    OfferedDevice,
    QueuedPod,
    WatchCursor,
    WatchSpan,
)
from metering.models.window import MeteringWindow

__all__ = [
    "CapacityRecord",
    "CatalogueVersion",
    "ClaimConsumer",
    "ClusterHealth",
    "ClusterWatch",
    "CreditProposal",
    "CreditState",
    "DeviceClass",
    "DeviceEvent",
    "DeviceUsage",
    "DeviceWindow",
    "ExceptionKind",
    "ExceptionState",
    "MeteringException",
    "MeteringWindow",
    "NodeLabelSet",
    "NodeRecord",
    "OfferedDevice",
    "PodAllocation",
    "QueuedPod",
    "ReconciliationDecision",
    "UsageActivity",
    "UsageCorrection",
    "UsageRecord",
    "WasteFinding",
    "WasteState",
    "WatchCursor",
    "WatchSpan",
    "WindowDivision",
    "WindowPart",
    "WindowRecheck",
    "WindowState",
]
