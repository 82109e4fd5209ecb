"""Rightsizing: the smallest part of the same GPU that would have served a pod.

A MIG profile where the model has MIG, else a time-sliced share. Whether a suggestion can be had in
a cluster is not known here; its size and price group are those of the catalogue in force.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from metering.domain.catalogue.mig_geometry import Geometry, compute_slices_of, geometry_of
from metering.domain.catalogue.sizing import Catalogue, Sized, size_of

_MEBIBYTE: Final = 1024 * 1024
_GIGABYTE: Final = 1_000_000_000
SHARES: Final = (8, 4, 2)
"""Pods that may time-slice one GPU, the smallest share first."""


@dataclass(frozen=True)
class Need:
    """What a unit needed, headroom included.

    Attributes:
        memory_mebibytes: Of the device's memory.
        share: Of the whole device's computing, 0 to 1.
    """

    memory_mebibytes: Fraction
    share: Fraction


@dataclass(frozen=True)
class Present:
    """What a pod holds a unit of.

    Attributes:
        product: The product label without its endings.
        share: How much of a physical device one unit is.
        memory_mebibytes: What one unit has; None when not observed.
    """

    product: str
    share: Fraction
    memory_mebibytes: int | None


def need_of(
    *, memory_mebibytes: int, activity: Decimal, share: Fraction, headroom: Decimal
) -> Need:
    """Return what a unit needs, from its observed memory and activity.

    Args:
        memory_mebibytes: Highest observed.
        activity: Of its own part of the device, 0 to 1.
        share: That part.
        headroom: How much more than observed is left to it, such as 0.2.
    """
    factor = 1 + Fraction(headroom)
    return Need(
        memory_mebibytes=memory_mebibytes * factor,
        share=min(share, Fraction(activity) * share * factor),
    )


def smaller_that_serves(present: Present, *, need: Need, catalogue: Catalogue) -> Sized | None:
    """Return the smallest part of the same GPU that meets a need, or None when none does.

    Only what is truly smaller than the present unit, and has a size, is returned.
    """
    geometry = geometry_of(present.product)
    found = (
        _instances(present, geometry=geometry, need=need, catalogue=catalogue)
        if geometry is not None
        else _shares(present, need=need, catalogue=catalogue)
    )
    return next((sized for sized in found if sized.share < present.share), None)


def _instances(
    present: Present, *, geometry: Geometry, need: Need, catalogue: Catalogue
) -> Iterator[Sized]:
    """Yield the profiles that serve, by computing and then by memory, the smallest first."""
    plain = [profile for profile in geometry.instances_max if profile.endswith("gb")]
    plain.sort(key=lambda profile: (compute_slices_of(profile), memory_of(profile)))
    for profile in plain:
        share = Fraction(compute_slices_of(profile), geometry.compute_slices)
        if share < need.share or memory_of(profile) < need.memory_mebibytes:
            continue
        sized = size_of(
            catalogue,
            resource=f"nvidia.com/mig-{profile}",
            labels={"nvidia.com/gpu.product": present.product, "nvidia.com/mig.strategy": "mixed"},
        )
        if isinstance(sized, Sized):
            yield sized


def _shares(present: Present, *, need: Need, catalogue: Catalogue) -> Iterator[Sized]:
    """Yield the time-sliced shares that serve, the smallest first."""
    if present.share != 1 or present.memory_mebibytes is None:
        return
    for replicas in SHARES:
        if need.share * replicas > 1 or need.memory_mebibytes * replicas > present.memory_mebibytes:
            continue
        sized = size_of(
            catalogue,
            resource="nvidia.com/gpu",
            labels={
                "nvidia.com/gpu.product": f"{present.product}-SHARED",
                "nvidia.com/gpu.replicas": str(replicas),
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            },
        )
        if isinstance(sized, Sized):
            yield sized


def memory_of(profile: str) -> Fraction:
    """Return the memory a profile is named after, in mebibytes: what is sold as 10gb.

    The device plugin rounds the name up or down by less than the headroom.
    """
    return Fraction(int(profile.partition(".")[2].removesuffix("gb")) * _GIGABYTE, _MEBIBYTE)
