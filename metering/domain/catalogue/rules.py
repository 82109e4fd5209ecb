"""Catalogue rules: the first-match table from resource and node labels to a size, as data."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from metering.domain.catalogue.units import GPUSize


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
