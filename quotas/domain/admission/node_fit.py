"""Node fit: which nodes a pod may be scheduled on, by their known labels.

Only the GPU labels of a node are stored. A condition on another label is unknown, and then the node
counts as possible, so that a pod is never counted as smaller than it may be.
Source: kubernetes/component-helpers, scheduling/corev1/nodeaffinity.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from metering.domain.catalogue.sizing import Sized
from quotas.domain.admission.pod_fields import (
    ENTRIES_MAX,
    JSON,
    PodInvalidError,
    mapping,
    objects,
    text,
    texts,
)

KNOWN_LABELS: Final = (
    "nvidia.com/gpu.",
    "nvidia.com/mig.",
    "nvidia.com/mig-",
    "gpu-ledger.io/dedicated-to",
)
"""Beginnings of the node labels that are kept, so that one missing is known to be missing."""


@dataclass(frozen=True)
class Requirement:
    """One condition on a label of a node, or on its name.

    Attributes:
        key: The label's; "metadata.name" for the node's name.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def may_hold(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds or is not known to fail."""
        if self.key not in labels and not self.key.startswith(KNOWN_LABELS):
            return True
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        """Whether a number satisfies Gt or Lt; a value that cannot be compared may match."""
        try:
            (bound,) = map(int, self.values)
            number = int(value)
        except ValueError:
            return True
        return {"Gt": number > bound, "Lt": number < bound}.get(self.operator, True)


@dataclass(frozen=True)
class NodeOffer:
    """What nodes that are alike offer of GPUs.

    Attributes:
        nodes: Their names, one or more.
        labels: The labels that are kept of them.
        sized: Resource to what one unit of it is there; a resource without a size is left out.
    """

    nodes: frozenset[str]
    labels: Mapping[str, str]
    sized: Mapping[str, Sized]


@dataclass(frozen=True)
class Placement:
    """Where a pod lets itself be put.

    Attributes:
        selector: Conditions that all must hold.
        terms: Of these at least one must hold; each is all of its conditions. Empty for none.
        node: The one node it names itself; "" for none.
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    node: str = ""

    @property
    def names_nodes(self) -> bool:
        """Whether nodes that are alike can differ by their names."""
        return bool(self.node) or any(
            one.key == _NAME for term in (self.selector, *self.terms) for one in term
        )

    def nodes_within(self, offers: Iterable[NodeOffer]) -> frozenset[str]:
        """Return the names of all nodes the pod may land on."""
        return frozenset(
            node for offer in offers for node in offer.nodes if self.may_land_on(node, offer.labels)
        )

    def may_land_on_any(self, nodes: frozenset[str], labels: Mapping[str, str]) -> bool:
        """Whether any of several nodes that are alike is one the pod may land on."""
        asked = nodes if self.names_nodes else islice(nodes, 1)
        return any(self.may_land_on(node, labels) for node in asked)

    def may_land_on(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one the pod may land on."""
        if self.node and node != self.node:
            return False
        known = {**labels, _NAME: node}
        return all(one.may_hold(known) for one in self.selector) and (
            not self.terms or any(all(one.may_hold(known) for one in term) for term in self.terms)
        )


_NAME: Final = "metadata.name"


def placement_of(spec: JSON) -> Placement:
    """Return where a pod lets itself be put.

    Raises:
        PodInvalidError: It is no pod.
    """
    selector = texts(spec.get("nodeSelector"), "spec.nodeSelector")
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    nodes = mapping(affinity.get("nodeAffinity"), "spec.affinity.nodeAffinity")
    required = mapping(
        nodes.get("requiredDuringSchedulingIgnoredDuringExecution"), "spec.affinity.nodeAffinity"
    )
    terms = objects(required.get("nodeSelectorTerms"), "nodeSelectorTerms")
    return Placement(
        selector=tuple(Requirement(key, "In", (value,)) for key, value in sorted(selector.items())),
        # A term without any condition matches no node.
        terms=tuple(read for term in terms if (read := _conditions(term))),
        node=text(spec.get("nodeName"), "spec.nodeName"),
    )


def _conditions(term: JSON) -> tuple[Requirement, ...]:
    listed = (
        *objects(term.get("matchExpressions"), "matchExpressions"),
        *objects(term.get("matchFields"), "matchFields"),
    )
    return tuple(
        Requirement(
            key=text(one.get("key"), "key", limit=317),
            operator=text(one.get("operator"), "operator"),
            values=_values(one.get("values")),
        )
        for one in listed
    )


def _values(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise PodInvalidError("values is no list, or too long.")
    return tuple(text(one, "values") for one in value)
