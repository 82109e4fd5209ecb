"""MIG geometry: how each GPU model can be cut, as data.

Profiles are spelled as the device plugin spells them in resource names: `1g.10gb+me` becomes
`1g.10gb.me`, while the dash of `1g.24gb-me` stays. Source: NVIDIA MIG user guide, "Supported MIG
profiles"; mig-parted, `config-default.yaml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final


@dataclass(frozen=True)
class Geometry:
    """How one GPU model is cut.

    Attributes:
        products: Globs over the product label without its `-SHARED` and `-MIG-` endings.
        compute_slices: Slices of the whole device: 7, or 4 on the small ones.
        instances_max: Profile to how many instances of it fit on one device.
    """

    products: tuple[str, ...]
    compute_slices: int
    instances_max: Mapping[str, int]


GEOMETRIES: Final[tuple[Geometry, ...]] = (
    Geometry(
        products=("*A100-*40GB*",),
        compute_slices=7,
        instances_max={
            "1g.5gb": 7,
            "1g.5gb.me": 1,
            "1g.10gb": 4,
            "2g.10gb": 3,
            "3g.20gb": 2,
            "4g.20gb": 1,
            "7g.40gb": 1,
        },
    ),
    Geometry(
        products=("*H100-NVL*", "*H100-*94GB*", "*H100-*96GB*", "*GH200-*"),
        compute_slices=7,
        instances_max={
            "1g.12gb": 7,
            "1g.12gb.me": 1,
            "1g.24gb": 4,
            "2g.24gb": 3,
            "3g.47gb": 2,
            "3g.48gb": 2,
            "4g.47gb": 1,
            "4g.48gb": 1,
            "7g.94gb": 1,
            "7g.96gb": 1,
        },
    ),
    Geometry(
        products=("*A100-*80GB*", "*H100-*80GB*", "*H100-PCIe*", "*H100-SXM5"),
        compute_slices=7,
        instances_max={
            "1g.10gb": 7,
            "1g.10gb.me": 1,
            "1g.20gb": 4,
            "2g.20gb": 3,
            "3g.40gb": 2,
            "4g.40gb": 1,
            "7g.80gb": 1,
        },
    ),
    Geometry(
        products=("*H200*",),
        compute_slices=7,
        instances_max={
            "1g.18gb": 7,
            "1g.18gb.me": 1,
            "1g.35gb": 4,
            "2g.35gb": 3,
            "3g.71gb": 2,
            "4g.71gb": 1,
            "7g.141gb": 1,
        },
    ),
    Geometry(
        products=("*GB200*",),
        compute_slices=7,
        instances_max={
            "1g.23gb": 7,
            "1g.23gb.me": 1,
            "1g.47gb": 4,
            "2g.47gb": 3,
            "3g.93gb": 2,
            "4g.93gb": 1,
            "7g.186gb": 1,
        },
    ),
    Geometry(
        products=("*B200*",),
        compute_slices=7,
        instances_max={
            "1g.23gb": 7,
            "1g.23gb.me": 1,
            "1g.45gb": 4,
            "2g.45gb": 3,
            "3g.90gb": 2,
            "4g.90gb": 1,
            "7g.180gb": 1,
        },
    ),
    Geometry(
        products=("*B300*", "*GB300*"),
        compute_slices=7,
        instances_max={
            "1g.34gb": 7,
            "1g.34gb.me": 1,
            "1g.35gb": 7,
            "1g.35gb.me": 1,
            "1g.67gb": 4,
            "1g.70gb": 4,
            "2g.67gb": 3,
            "2g.70gb": 3,
            "3g.135gb": 2,
            "3g.139gb": 2,
            "4g.135gb": 1,
            "4g.139gb": 1,
            "7g.269gb": 1,
            "7g.278gb": 1,
        },
    ),
    Geometry(
        products=("*A30", "*A30-*"),
        compute_slices=4,
        instances_max={
            "1g.6gb": 4,
            "1g.6gb.me": 1,
            "2g.12gb": 2,
            "2g.12gb.me": 1,
            "4g.24gb": 1,
        },
    ),
    Geometry(
        products=("*RTX-PRO-6000*",),
        compute_slices=4,
        instances_max={
            "1g.24gb": 4,
            "1g.24gb.gfx": 4,
            "1g.24gb.me.all": 1,
            "1g.24gb-me": 4,
            "2g.48gb": 2,
            "2g.48gb.gfx": 2,
            "2g.48gb.me.all": 1,
            "2g.48gb-me": 2,
            "4g.96gb": 1,
            "4g.96gb.gfx": 1,
        },
    ),
)

ALL_PROFILES: Final = tuple(sorted({p for g in GEOMETRIES for p in g.instances_max}))


def geometry_of(product: str) -> Geometry | None:
    """Return how a product is cut, or None when it is not known to support MIG.

    Args:
        product: The product label without its `-SHARED` and `-MIG-` endings.
    """
    for geometry in GEOMETRIES:
        if any(fnmatchcase(product, pattern) for pattern in geometry.products):
            return geometry
    return None


def compute_slices_of(profile: str) -> int:
    """Return the compute slices of one instance: 3 for "3g.40gb"."""
    return int(profile.partition("g.")[0])
