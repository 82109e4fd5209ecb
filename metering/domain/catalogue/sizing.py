"""The catalogue: which size, price group and share of a device one unit of a resource is.

`nvidia.com/gpu` alone is ambiguous: it is a whole GPU, a MIG slice or a share of either. The node's
labels as they were at the bind settle it. What stays unsettled is refused with a cause, never
guessed. Geometry gives the share of a device a unit is; versioned first-match rules give its size.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, Final

from metering.domain.catalogue.mig_geometry import compute_slices_of, geometry_of
from metering.domain.catalogue.units import (
    CLAIM_PREFIX,
    GPUSize,
    ResourceName,
    SharingMode,
    resource_of,
    sanitise,
)


@dataclass(frozen=True)
class RuleInput:
    """The input of a rule.

    Attributes:
        resource: Kubernetes' spelling.
        product: The product label with its endings.
        mig_strategy: "single", "mixed", or "" for none.
        sharing: "time-slicing", "mps" or "none".
        replicas: Pods per device or slice; 1 when not shared.
    """

    resource: str
    product: str
    mig_strategy: str
    sharing: str
    replicas: int


@dataclass(frozen=True)
class Rule:
    """One line of the catalogue. Empty conditions hold for everything; globs are case-sensitive.

    Attributes:
        size: None refuses what it matches.
        replicas_min: Least replicas for which it holds.
    """

    size: GPUSize | None
    resources: tuple[str, ...]
    products: tuple[str, ...] = ()
    mig_strategy: str = ""
    sharing: tuple[str, ...] = ()
    replicas_min: int = 0

    def matches(self, facts: RuleInput) -> bool:
        """Whether every condition of the rule holds."""
        return (
            _any_glob(self.resources, facts.resource)
            and (not self.products or _any_glob(self.products, facts.product))
            and self.mig_strategy in {"", facts.mig_strategy}
            and (not self.sharing or facts.sharing in self.sharing)
            and facts.replicas >= self.replicas_min
        )

    def decides(self, facts: RuleInput, *, claimed: RuleInput) -> bool:
        """Whether it holds for a device, or names the class through which it was claimed."""
        names_class = any(pattern.startswith(CLAIM_PREFIX) for pattern in self.resources)
        return self.matches(facts) or (names_class and self.matches(claimed))


def _any_glob(patterns: Sequence[str], text: str) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule as it is stored."""
    return {
        "size": rule.size.value if rule.size else None,
        "resources": list(rule.resources),
        "products": list(rule.products),
        "mig_strategy": rule.mig_strategy,
        "sharing": list(rule.sharing),
        "replicas_min": rule.replicas_min,
    }


def rule_from_json(stored: Mapping[str, Any]) -> Rule:
    """Return a rule from how it is stored.

    Raises:
        ValueError: The size is none of ours.
        KeyError: A part is missing.
    """
    return Rule(
        size=GPUSize(stored["size"]) if stored["size"] else None,
        resources=tuple(stored["resources"]),
        products=tuple(stored["products"]),
        mig_strategy=stored["mig_strategy"],
        sharing=tuple(stored["sharing"]),
        replicas_min=stored["replicas_min"],
    )


def rules_digest(rules: Sequence[Rule]) -> str:
    """Return the SHA-256 of the rules in canonical JSON."""
    text = json.dumps([rule_to_json(rule) for rule in rules], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_GPU: Final = ("nvidia.com/gpu",)


DEFAULT_VERSION: Final = 1


DEFAULT_RULES: Final[tuple[Rule, ...]] = (
    # On devices of four compute slices, 4g is the whole device.
    Rule(GPUSize.LARGE, ("nvidia.com/mig-4g.24gb*",), products=("NVIDIA-A30*",)),
    Rule(GPUSize.LARGE, ("nvidia.com/mig-4g.96gb*",), products=("*RTX-PRO-6000*",)),
    Rule(GPUSize.SMALL, ("nvidia.com/mig-1g.*",)),
    Rule(
        GPUSize.MEDIUM,
        ("nvidia.com/mig-2g.*", "nvidia.com/mig-3g.*", "nvidia.com/mig-4g.*"),
    ),
    Rule(GPUSize.LARGE, ("nvidia.com/mig-7g.*",)),
    Rule(GPUSize.SMALL, ("nvidia.com/*.shared",)),
    # Strategy `single`: nvidia.com/gpu is a slice, and the product label names the profile.
    Rule(
        GPUSize.LARGE,
        _GPU,
        products=("NVIDIA-A30-MIG-4g.24gb*", "*RTX-PRO-6000*-MIG-4g.96gb*"),
        mig_strategy="single",
    ),
    Rule(GPUSize.SMALL, _GPU, products=("*-MIG-1g.*",), mig_strategy="single"),
    Rule(
        GPUSize.MEDIUM,
        _GPU,
        products=("*-MIG-2g.*", "*-MIG-3g.*", "*-MIG-4g.*"),
        mig_strategy="single",
    ),
    Rule(None, _GPU, products=("*-MIG-INVALID*",)),
    Rule(GPUSize.SMALL, _GPU, sharing=("time-slicing", "mps"), replicas_min=2),
    Rule(GPUSize.LARGE, _GPU),
)


SHARED_ENDING: Final = "-SHARED"
MIG_MARK: Final = "-MIG-"
MIG_INVALID: Final = "INVALID"
SHORT_MODELS: Final[Mapping[str, str]] = {
    "NVIDIA-H100-80GB-HBM3": "H100",
    "NVIDIA-A100-SXM4-80GB": "A100",
}
"""Products whose price groups carry a short name. A 40 GB A100 keeps its full name, because its
`1g.10gb` is another thing than that of the 80 GB model."""


_PRODUCT: Final = re.compile(r"(label_)?nvidia_com_(gpu|mig_\w+)_product")


class UnsizedCause(StrEnum):
    """Why a resource on a node has no size."""

    UNKNOWN_RESOURCE = "unknown_resource"
    NO_LABELS = "no_labels"
    MIXED_MODELS = "mixed_models"
    MIG_INVALID = "mig_invalid"
    NO_REPLICAS = "no_replicas"
    SHARE_UNKNOWN = "share_unknown"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_PROFILE = "unknown_profile"
    UNMAPPED = "unmapped"


@dataclass(frozen=True)
class Sized:
    """What one unit of a resource is.

    Attributes:
        resource: Kubernetes' spelling of the resource.
        price_group: `<MODEL>/<shape>`, such as "H100/1g.10gb" or "A100/1of4".
        share: How much of a physical device one unit is.
        product: The product label without its endings.
    """

    resource: str
    size: GPUSize
    price_group: str
    sharing_mode: SharingMode
    share: Fraction
    product: str
    catalogue_version: int


@dataclass(frozen=True)
class Unsized:
    """A resource on a node that no rule may size."""

    cause: UnsizedCause


@dataclass(frozen=True)
class Catalogue:
    """One version of the size rules, first match first."""

    version: int
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class _Node:
    """The labels of one node that sizing reads, by sanitised key without `label_`."""

    labels: Mapping[str, str]

    def text(self, key: str) -> str:
        return self.labels.get(sanitise(key), "")

    def product_for(self, name: ResourceName) -> str:
        """Return the product label, falling back to the one of the resource's own profile."""
        return self.text("nvidia.com/gpu.product") or self.text(f"{_base(name)}.product")

    def replicas_for(self, name: ResourceName) -> int | None:
        """Return pods per device; None without a label, 0 when it is no number."""
        text = self.text(f"{_base(name)}.replicas")
        if not text:
            return None
        return int(text) if text.isascii() and text.isdigit() else 0

    def is_shared(self, name: ResourceName) -> bool:
        return name.is_shared or self.text(f"{_base(name)}.product").endswith(SHARED_ENDING)

    def is_mps(self, name: ResourceName) -> bool:
        key = "sharing-strategy"
        own = self.text(f"{_base(name)}.{key}") or self.text(f"nvidia.com/gpu.{key}")
        return own == SharingMode.MPS


@dataclass(frozen=True)
class _Shape:
    """How a unit is cut out of a device; profile "" is no MIG, replicas 1 is no sharing."""

    model: str
    profile: str
    replicas: int
    mode: SharingMode
    share: Fraction

    @property
    def price_group(self) -> str:
        parts = [SHORT_MODELS.get(self.model, self.model.removeprefix("NVIDIA-"))]
        if self.profile:
            parts.append(self.profile)
        if self.replicas > 1:
            parts.append(f"1of{self.replicas}")
        return "/".join(parts) if len(parts) > 1 else f"{parts[0]}/whole"


def size_of(
    catalogue: Catalogue,
    *,
    resource: str,
    labels: Mapping[str, str],
    device_models: Collection[str] = (),
    claimed_as: str = "",
) -> Sized | Unsized:
    """Return what one unit of a resource is on a node, or why that is unknown.

    Args:
        catalogue: The version in force.
        resource: Raw or sanitised resource name.
        labels: The node's labels at the bind; keys raw, sanitised, or sanitised with `label_`.
        device_models: Distinct GPU models the node's devices report; may be empty.
        claimed_as: "claim/<device class>" of a claimed device, which rules may name; "" for none.
    """
    name = resource_of(resource)
    if name is None:
        return Unsized(UnsizedCause.UNKNOWN_RESOURCE)
    node = _Node({sanitise(key).removeprefix("label_"): text for key, text in labels.items()})
    product = node.product_for(name)
    if not product:
        return Unsized(UnsizedCause.NO_LABELS)
    if len(device_models) > 1:
        return Unsized(UnsizedCause.MIXED_MODELS)
    shape = _shape_of(name, node=node, product=product)
    if isinstance(shape, Unsized):
        return shape
    facts = _facts_of(name, shape=shape, node=node, product=product)
    claimed = replace(facts, resource=claimed_as, product=_claimed_product(shape, product=product))
    rule = next((rule for rule in catalogue.rules if rule.decides(facts, claimed=claimed)), None)
    if rule is None or rule.size is None:
        return Unsized(UnsizedCause.UNMAPPED)
    return Sized(
        resource=name.raw,
        size=rule.size,
        price_group=shape.price_group,
        sharing_mode=shape.mode,
        share=shape.share,
        product=shape.model,
        catalogue_version=catalogue.version,
    )


def names_product(labels: Mapping[str, str]) -> bool:
    """Whether the labels of a node name the product of some of its devices, as sizing needs."""
    return any(text and _PRODUCT.fullmatch(sanitise(key)) for key, text in labels.items())


def _shape_of(name: ResourceName, *, node: _Node, product: str) -> _Shape | Unsized:
    model, _, ending = product.removesuffix(SHARED_ENDING).partition(MIG_MARK)
    if not name.profile and ending == MIG_INVALID:
        return Unsized(UnsizedCause.MIG_INVALID)
    replicas = _replicas_of(name, node=node)
    if isinstance(replicas, Unsized):
        return replicas
    profile = name.profile or ending
    slice_share = _slice_share(model, profile=profile)
    if isinstance(slice_share, Unsized):
        return slice_share
    return _Shape(
        model=model,
        profile=profile,
        replicas=replicas,
        mode=_mode_of(name, node=node, profile=profile, replicas=replicas),
        share=slice_share / replicas,
    )


def _replicas_of(name: ResourceName, *, node: _Node) -> int | Unsized:
    replicas = node.replicas_for(name)
    if replicas == 0:
        return Unsized(UnsizedCause.NO_REPLICAS)
    if node.is_shared(name) and (replicas is None or replicas == 1):
        return Unsized(UnsizedCause.SHARE_UNKNOWN)
    return replicas or 1


def _slice_share(model: str, *, profile: str) -> Fraction | Unsized:
    if not profile:
        return Fraction(1)
    geometry = geometry_of(model)
    if geometry is None:
        return Unsized(UnsizedCause.UNKNOWN_MODEL)
    if profile not in geometry.instances_max:
        return Unsized(UnsizedCause.UNKNOWN_PROFILE)
    return Fraction(compute_slices_of(profile), geometry.compute_slices)


def _mode_of(name: ResourceName, *, node: _Node, profile: str, replicas: int) -> SharingMode:
    """Return the sharing mode; exporters older than MPS name no strategy and only slice time."""
    if replicas > 1:
        return SharingMode.MPS if node.is_mps(name) else SharingMode.TIME_SLICING
    return SharingMode.MIG if profile else SharingMode.WHOLE


def _facts_of(name: ResourceName, *, shape: _Shape, node: _Node, product: str) -> RuleInput:
    is_single = bool(shape.profile) and not name.profile
    return RuleInput(
        resource=name.raw,
        product=product,
        mig_strategy="single" if is_single else node.text("nvidia.com/mig.strategy"),
        sharing=shape.mode.value if shape.replicas > 1 else "none",
        replicas=shape.replicas,
    )


def _claimed_product(shape: _Shape, *, product: str) -> str:
    return f"{product}{MIG_MARK}{shape.profile}" if shape.profile else product


def _base(name: ResourceName) -> str:
    return name.raw.removesuffix(".shared")
