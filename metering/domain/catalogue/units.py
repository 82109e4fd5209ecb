"""Units of GPU resources: their names and sizes, and how many of them a pod requests and holds.

kube-state-metrics spells every character outside `[a-zA-Z0-9_]` as `_`, which loses information.
Names are therefore compared by sanitising the known ones, never by reversing a sanitised one.
Source: kube-state-metrics, `internal/store/utils.go`; k8s-device-plugin, `internal/rm/rm.go`.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol

from metering.domain.catalogue.mig_geometry import ALL_PROFILES

UNITS_MAX: Final = 10_000
"""More units of one resource than any node offers; a larger request is a broken sample."""
UNKNOWN_UNITS_MAX: Final = 10**12
"""More of anything than a pod requests, memory in bytes included; an hour of it can be counted."""


def unit_seconds(*, units: int, seconds: int) -> int:
    """Return what is billed: units held times whole seconds.

    Raises:
        ValueError: One of them is negative.
    """
    if units < 0 or seconds < 0:
        raise ValueError("units and seconds are not negative")
    return units * seconds


def is_believable(units: int, *, is_sized: bool = True) -> bool:
    """Whether a request can be what a pod holds: a positive, bounded whole number.

    The unit of an unknown device is not known, so a much larger number is accepted.
    """
    return 1 <= units <= (UNITS_MAX if is_sized else UNKNOWN_UNITS_MAX)


class GPUSize(StrEnum):
    """Small, Medium and Large. The catalogue decides the size of a device."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class SharingMode(StrEnum):
    """How a device is divided among pods."""

    WHOLE = "whole"
    MIG = "mig"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


WHOLE_DEVICE: Final = "nvidia.com/gpu"


MIG_PREFIX: Final = "nvidia.com/mig-"


SHARED_SUFFIX: Final = ".shared"


CLAIM_PREFIX: Final = "claim/"
"""Before the device class of a ResourceClaim, where a resource is named."""


_OTHER = re.compile(r"[^a-zA-Z0-9_]")


_NAMES_CACHED_MAX = 4_096


@lru_cache(maxsize=_NAMES_CACHED_MAX)
def sanitise(name: str) -> str:
    """Return a name as kube-state-metrics spells it."""
    return _OTHER.sub("_", name)


@dataclass(frozen=True)
class ResourceName:
    """One extended resource of the NVIDIA device plugin.

    Attributes:
        raw: Kubernetes' spelling, such as "nvidia.com/mig-1g.10gb".
        profile: MIG profile named by the resource itself; "" for `nvidia.com/gpu`.
        is_shared: Whether the plugin renamed it because each unit is a share.
    """

    raw: str
    profile: str
    is_shared: bool


def _known() -> dict[str, ResourceName]:
    bases = [(WHOLE_DEVICE, ""), *((MIG_PREFIX + profile, profile) for profile in ALL_PROFILES)]
    names = [ResourceName(raw=raw, profile=profile, is_shared=False) for raw, profile in bases]
    names += [
        ResourceName(raw=raw + SHARED_SUFFIX, profile=profile, is_shared=True)
        for raw, profile in bases
    ]
    return {sanitise(name.raw): name for name in names}


KNOWN_RESOURCES: Final[Mapping[str, ResourceName]] = _known()
"""Sanitised spelling to the resource."""


def resource_of(name: str) -> ResourceName | None:
    """Return the resource meant by a raw or a sanitised name, or None when it is not known."""
    return KNOWN_RESOURCES.get(sanitise(name))


BURST_ENDING: Final = "/burst"


def group_of(price_group: str, *, priority_class: str, burst_classes: Collection[str]) -> str:
    """Return the group of what a pod holds.

    Args:
        price_group: Of the device share; "" stays "".
        priority_class: The pod's, "" without one.
        burst_classes: Those that are preemptible.
    """
    return (
        f"{price_group}{BURST_ENDING}"
        if price_group and priority_class in burst_classes
        else price_group
    )


def is_burst(price_group: str) -> bool:
    """Whether the usage could be preempted at any time."""
    return price_group.endswith(BURST_ENDING)


def without_burst(price_group: str) -> str:
    """Return the device share alone."""
    return price_group.removesuffix(BURST_ENDING)


def like(price_group: str, *, other: str) -> str:
    """Return another device share, as preemptible as the first."""
    return f"{other}{BURST_ENDING}" if is_burst(price_group) else other


REGULAR: Final = "regular"


INIT: Final = "init"


SIDECAR: Final = "sidecar"


OVERHEAD: Final = "overhead"
"""What the RuntimeClass of a pod adds to its containers' requests."""


class ContainerAsk(Protocol):
    """What one container requests of the resource; see protocols.ContainerRequest."""

    @property
    def kind(self) -> str:
        """Return "regular", "init", "sidecar" or "overhead"."""
        ...

    @property
    def units(self) -> int:
        """Return the requested units."""
        ...

    @property
    def order(self) -> int | None:
        """Return the position among the init containers, None when not known."""
        ...


def effective_units(asks: Iterable[ContainerAsk]) -> int:
    """Return the units a pod holds of one resource from its bind to its end.

    Where the order of an init container or of a sidecar is not known, the sidecar counts as
    declared before: that is an upper bound, and exact for pods without both. The scheduler adds a
    pod's overhead to either sum. A negative request cannot be, and makes the whole negative, so
    that nothing is billed from it.
    """
    listed = list(asks)
    if len(listed) == 1 and listed[0].kind == REGULAR:
        return listed[0].units
    lowest = min((ask.units for ask in listed), default=0)
    if lowest < 0:
        return lowest
    sidecars = [ask for ask in listed if ask.kind == SIDECAR]
    steady = sum(ask.units for ask in listed if ask.kind in {REGULAR, SIDECAR})
    starting = (
        ask.units + sum(other.units for other in sidecars if _may_run_beside(other, ask))
        for ask in listed
        if ask.kind == INIT
    )
    overhead = sum(ask.units for ask in listed if ask.kind == OVERHEAD)
    return max(steady, max(starting, default=0)) + overhead


def _may_run_beside(sidecar: ContainerAsk, init: ContainerAsk) -> bool:
    return sidecar.order is None or init.order is None or sidecar.order < init.order
