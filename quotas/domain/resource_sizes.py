"""Resource sizes: which one size a resource name counts to on a cluster, before any pod is bound.

Most names say it themselves. `nvidia.com/gpu` does not: it is a whole GPU on one node and a share
of one on another. There, what metering has seen on the cluster's nodes decides; where it has seen
several sizes, or none yet, the name counts to the largest it can be, so that the wall is never
wider than the limit of the dearest size. Renaming shared resources (`renameByDefault: true`) and
MIG strategy `mixed` remove the doubt.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from metering.domain.catalogue_rules import Rule
from metering.domain.gpu_sizes import GPUSize

FROM_SMALLEST: Final = (GPUSize.SMALL, GPUSize.MEDIUM, GPUSize.LARGE)


def size_by_name(
    resource: str, *, rules: Iterable[Rule], seen: Iterable[GPUSize]
) -> GPUSize | None:
    """Return the size a resource name counts to; None when no rule knows it.

    Args:
        resource: As Kubernetes spells it.
        rules: The catalogue in force, first match first.
        seen: Sizes metering has seen under this name on the cluster.
    """
    likely = likely_sizes(resource, rules=rules, seen=seen)
    return max(likely, key=FROM_SMALLEST.index) if likely else None


def likely_sizes(
    resource: str, *, rules: Iterable[Rule], seen: Iterable[GPUSize]
) -> frozenset[GPUSize]:
    """Return every size a name may count to, given what was seen of it; more than one is a doubt.

    Args:
        resource: As Kubernetes spells it.
        rules: The catalogue in force, first match first.
        seen: Sizes metering has seen under this name on the cluster.
    """
    possible = possible_sizes(resource, rules=rules)
    return possible & frozenset(seen) or possible


def possible_sizes(resource: str, *, rules: Iterable[Rule]) -> frozenset[GPUSize]:
    """Return every size the rules can give to a name, up to the first that asks nothing more."""
    sizes: set[GPUSize] = set()
    for rule in rules:
        if not any(fnmatchcase(resource, pattern) for pattern in rule.resources):
            continue
        if rule.size is not None:
            sizes.add(rule.size)
        if _is_unconditional(rule):
            break
    return frozenset(sizes)


def _is_unconditional(rule: Rule) -> bool:
    return not (rule.products or rule.mig_strategy or rule.sharing or rule.replicas_min > 1)
