"""Names of GPU resources in Kubernetes' and Prometheus' spelling, and of price groups.

kube-state-metrics spells every character outside `[a-zA-Z0-9_]` as `_`, which loses information.
Names are therefore compared by sanitising the known ones, never by reversing a sanitised one.
Source: kube-state-metrics, `internal/store/utils.go`; k8s-device-plugin, `internal/rm/rm.go`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from metering.domain.catalogue.mig_geometry import ALL_PROFILES

WHOLE_DEVICE: Final = "nvidia.com/gpu"
MIG_PREFIX: Final = "nvidia.com/mig-"
SHARED_SUFFIX: Final = ".shared"

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
