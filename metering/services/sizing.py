"""Sizing within one window: the catalogue asked once per resource and node, not once per pod."""

from collections.abc import Mapping
from dataclasses import replace

from django.conf import settings

from metering.domain.catalogue import Catalogue, Sized, Unsized, size_of
from metering.domain.price_groups import group_of
from metering.protocols import Observation


class Sizer:
    """The catalogue in force, with the models each node's devices name in an observation."""

    def __init__(self, catalogue: Catalogue, *, observation: Observation | None) -> None:
        """Keep what is asked; the observation must outlive the sizer."""
        self._catalogue = catalogue
        self._models = observation.device_models if observation else {}
        self._known: dict[tuple[str, str, int], Sized | Unsized] = {}

    def size(self, resource: str, *, node: str, labels: Mapping[str, str]) -> Sized | Unsized:
        """Return what one unit of a resource is on a node with these labels; see `size_of`.

        Labels are told apart by identity: sources share one mapping among the pods of a node.
        """
        key = (resource, node, id(labels))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = size_of(
                self._catalogue,
                resource=resource,
                labels=labels,
                device_models=self._models.get(node, ()),
            )
        return found


def sized_for(sized: Sized, *, priority_class: str) -> Sized:
    """Return what a pod of a priority class holds: what is preemptible has a group of its own."""
    group = group_of(
        sized.price_group,
        priority_class=priority_class,
        burst_classes=settings.BURST_PRIORITY_CLASSES,
    )
    return replace(sized, price_group=group)
