"""Unbilled devices: handed out by the kubelet or the scheduler, or busy, without a usage record."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

BUSY_MIN: Final = Decimal("0.05")
"""Mean activity above which a device is in use; drivers and health checks stay below."""
NAMING_LAG: Final = timedelta(minutes=5)
"""For so long an exporter may name a pod that has ended, or not yet begun to be recorded."""


class UnbilledCause(StrEnum):
    """How it is known that a device was in use.

    Attributes:
        POD_NAMED: The exporter names a pod, as the kubelet reported it.
        BUSY: The device was busy, and no pod is named.
        ALLOCATED: The watch recorded a bound pod or an allocated claim.
    """

    POD_NAMED = "pod_named"
    BUSY = "busy_without_pod"
    ALLOCATED = "allocated"


CAUSE_WORDS: Final[Mapping[UnbilledCause, str]] = {
    UnbilledCause.POD_NAMED: (
        "DCGM names a pod for the device, as the kubelet reported it, and that pod has no usage "
        "record in the hour."
    ),
    UnbilledCause.BUSY: (
        f"The device was busy for at least {BUSY_MIN:%} of the time, no pod is named, and the "
        "pods billed on its node held other devices: a process outside Kubernetes, or a "
        "container with access to the host's devices."
    ),
    UnbilledCause.ALLOCATED: (
        "The scheduler bound a pod, or allocated a claim, that has no usage record in the hour, "
        "and no device names it."
    ),
}
NOTES: Final = (
    (
        "Only sealed hours are compared. Those without sealed device figures are counted by "
        "cluster: their devices are unknown, not unused."
    ),
    (
        "A row that an open exception holds waits for a decision. Nothing waits for a row without "
        "one: find its pod, bind the namespace to a project, or correct the hour's usage."
    ),
    (
        f"A name that an exporter keeps for up to {NAMING_LAG.seconds // 60} minutes beside a "
        "record of the hour before or after is left out."
    ),
)
