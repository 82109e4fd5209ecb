"""The ResourceQuota of a namespace: whole units of sizes, told in the resources of a cluster.

A native quota is a wall for each resource name by itself; Kubernetes cannot add names up. Where a
cluster offers several resources of one size (two MIG profiles that are both Medium), each gets the
units of the size, so a namespace may hold the size's limit at most once per resource name. The
exact sum over names, namespaces and users is for admission to hold, which sees each pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from metering.domain.gpu_sizes import GPUSize

KEY_PREFIX = "requests."
"""Extended resources are counted under `requests.` only; a bare name or `limits.` never counts.

Source: Kubernetes, pkg/quota/v1/evaluator/core/pods.go.
"""


def hard_of(
    offered: Iterable[str],
    sizes: Mapping[str, GPUSize | None],
    units: Mapping[GPUSize, int],
) -> dict[str, int]:
    """Return the keys of a namespace's ResourceQuota, by name.

    Every offered resource is named: one left out would be unlimited. A resource of which no size
    is known, or of whose size nothing is granted, gets zero.

    Args:
        offered: Every GPU resource name of the cluster, as Kubernetes spells it.
        sizes: Resource name to the one size it counts to; None when no rule knows it.
        units: What the namespace may hold.
    """
    return {KEY_PREFIX + name: _units_of(sizes.get(name), units) for name in sorted(set(offered))}


def _units_of(size: GPUSize | None, units: Mapping[GPUSize, int]) -> int:
    return 0 if size is None else units.get(size, 0)


def sizes_offered(
    offered: Iterable[str], sizes: Mapping[str, GPUSize | None]
) -> frozenset[GPUSize]:
    """Return the sizes a cluster can serve at all."""
    found = (sizes.get(name) for name in offered)
    return frozenset(size for size in found if size is not None)


@dataclass(frozen=True)
class KeyComparison:
    """One key of a namespace's quota: what it should say, what it says, and what is used.

    Attributes:
        desired_units: None for a key somebody else added.
        live_units: None when the cluster does not say.
    """

    key: str
    desired_units: int | None
    live_units: int | None
    used_units: int | None

    @property
    def is_true(self) -> bool:
        """Whether the cluster says what it should; a key of somebody else's always does."""
        return self.desired_units is None or self.desired_units == self.live_units


def compare_keys(
    desired: Mapping[str, int], live: Mapping[str, int], used: Mapping[str, int]
) -> tuple[KeyComparison, ...]:
    """Return desired beside live and used, one per key, by name."""
    return tuple(
        KeyComparison(key, desired.get(key), live.get(key), used.get(key))
        for key in sorted({*desired, *live})
    )


def tell_briefly(hard: Mapping[str, int]) -> str:
    """Return a quota as people read it in a table, such as "nvidia.com/gpu 8"."""
    parts = (f"{key.removeprefix(KEY_PREFIX)} {units}" for key, units in sorted(hard.items()))
    return ", ".join(parts) or "none"


def has_arrived(desired: Mapping[str, int], live: Mapping[str, int]) -> bool:
    """Whether the cluster says what is desired, for every desired key.

    A key somebody added beside ours can only make the wall tighter, and is not ours to take away.
    """
    return all(live.get(key) == units for key, units in desired.items())
