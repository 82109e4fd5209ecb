"""Tables of metering and their constraints."""

from metering.models.allocation import PodAllocation
from metering.models.capacity import CapacityRecord
from metering.models.catalogue import CatalogueVersion
from metering.models.exception import ExceptionKind, ExceptionState, MeteringException
from metering.models.usage import UsageRecord
from metering.models.window import MeteringWindow, WindowState

__all__ = [
    "CapacityRecord",
    "CatalogueVersion",
    "ExceptionKind",
    "ExceptionState",
    "MeteringException",
    "MeteringWindow",
    "PodAllocation",
    "UsageRecord",
    "WindowState",
]
