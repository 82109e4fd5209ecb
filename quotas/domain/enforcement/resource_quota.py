"""The ResourceQuota of a namespace: whole units of sizes, as resources of a cluster.

A ResourceQuota caps each resource name separately; Kubernetes cannot add names up. Where a cluster
offers several resources of one size (two MIG profiles that are both Medium), each gets the units of
the size, so a namespace may hold the size's limit at most once per resource name. Admission, which
sees each pod, enforces the exact sum over names, namespaces and users.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from metering.domain.catalogue.units import GPUSize

KEY_PREFIX: Final = "requests."
"""Extended resources are counted under `requests.` only; a bare name or `limits.` never counts.

Source: Kubernetes, pkg/quota/v1/evaluator/core/pods.go."""
CLAIM_PREFIX: Final = "claim/"
"""How an offered DRA device class is written, as metering writes it."""
CLAIM_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
"""Counts the devices that claims of a class request.

Source: Kubernetes, pkg/quota/v1/evaluator/core/resource_claims.go and KEP-4381."""
IMPLICIT_PREFIX: Final = "requests.deviceclass.resource.kubernetes.io/"
"""Counts devices of a class that pods request as an extended resource, without a claim.

Source: Kubernetes, KEP-5004 and staging/src/k8s.io/api/core/v1/types.go."""
OPEN_UNITS: Final = 1_000_000
"""Value of an unlimited key. A missing key would be unlimited too, but look like an error; a number
too large to reach is read back, compared and shown like every other."""


def keys_of(resource: str) -> tuple[str, ...]:
    """Return every quota key under which a cluster may count an offered resource.

    A device class is reached by claims and by its implicit extended resource. Kubernetes does not
    add the two up, so both are named.
    """
    if not resource.startswith(CLAIM_PREFIX):
        return (KEY_PREFIX + resource,)
    device_class = resource.removeprefix(CLAIM_PREFIX)
    return (device_class + CLAIM_SUFFIX, IMPLICIT_PREFIX + device_class)


def is_counted_by_pod(key: str) -> bool:
    """Whether pods count under a key, so that it can be scoped by priority class.

    Claims have no priority: a quota scoped by priority class never counts them.
    """
    return key.startswith(KEY_PREFIX)


def hard_of(units: Mapping[str, int]) -> dict[str, int]:
    """Return the keys of a namespace's ResourceQuota, by name.

    Args:
        units: What the namespace may hold of every resource the cluster offers, as Kubernetes
            spells it. One left out would be unlimited, so none is: zero stands for nothing.
    """
    found = {key: amount for name, amount in units.items() for key in keys_of(name)}
    return dict(sorted(found.items()))


def sizes_offered(
    offered: Iterable[str], sizes: Mapping[str, GPUSize | None]
) -> frozenset[GPUSize]:
    """Return the sizes a cluster can serve at all."""
    found = (sizes.get(name) for name in offered)
    return frozenset(size for size in found if size is not None)


def total_of(hard: Mapping[str, int], burst: Mapping[str, int]) -> dict[str, int]:
    """Return what all pods together may hold, by key: nominal and burst."""
    return {key: units + burst.get(key, 0) for key, units in sorted(hard.items())}


def scoped_of(hard: Mapping[str, int]) -> dict[str, int]:
    """Return the keys a quota scoped by priority class can count, by name."""
    return {key: units for key, units in sorted(hard.items()) if is_counted_by_pod(key)}


@dataclass(frozen=True)
class KeyComparison:
    """One key of a namespace's quota: desired, applied and used units.

    Attributes:
        desired_units: None for a key that another client added.
        applied_units: What was last read back equal; None before that.
        live_units: None when the cluster does not report it.
    """

    key: str
    desired_units: int | None
    applied_units: int | None
    live_units: int | None
    used_units: int | None

    @property
    def is_true(self) -> bool:
        """Whether the cluster has the desired value; always true for another client's key."""
        return self.desired_units is None or self.desired_units == self.live_units

    @property
    def is_open(self) -> bool:
        """Whether the key is left open on purpose."""
        return self.desired_units == OPEN_UNITS


def compare_keys(
    desired: Mapping[str, int],
    live: Mapping[str, int],
    used: Mapping[str, int],
    applied: Mapping[str, int] | None = None,
) -> tuple[KeyComparison, ...]:
    """Return desired beside applied, live and used, one per key, by name."""
    said = applied or {}
    return tuple(
        KeyComparison(key, desired.get(key), said.get(key), live.get(key), used.get(key))
        for key in sorted({*desired, *live})
    )


def format_hard(hard: Mapping[str, int]) -> str:
    """Return a quota as people read it in a table, such as "nvidia.com/gpu 8"."""
    parts = (
        f"{key.removeprefix(KEY_PREFIX)} {_units_text(units)}"
        for key, units in sorted(hard.items())
    )
    return ", ".join(parts) or "none"


def format_granted(hard: Mapping[str, int]) -> str:
    """Return what is granted of a quota, for a narrow column; "0 of everything" for nothing."""
    granted = {key: units for key, units in hard.items() if units}
    if hard and not granted:
        return "0 of everything"
    return format_hard(granted)


def _units_text(units: int) -> str:
    return "open" if units >= OPEN_UNITS else str(units)


def has_arrived(desired: Mapping[str, int], live: Mapping[str, int]) -> bool:
    """Whether the cluster has the desired value for every desired key.

    Keys that another client added can only make the quota stricter, and stay.
    """
    return all(live.get(key) == units for key, units in desired.items())
