"""Model groups that are known: those the catalogue names, and those that were seen."""

from metering.domain.catalogue_rules import DEFAULT_RULES
from metering.domain.model_groups import SHORT_GROUPS, group_of_product, is_named
from metering.models import NodeRecord, PodAllocation
from metering.selectors.catalogue import catalogue_in_force


def unknown_model_group(model_group: str) -> tuple[str, ...] | None:
    """Return the known names when a model group is none of them, or None when it is right.

    Nothing is read for "", which is every model, nor for a short name of the catalogue; what pods
    hold and nodes were seen is read only for a name that the catalogue does not have.
    """
    if not model_group or model_group in SHORT_GROUPS:
        return None
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    if is_named(model_group, rules=rules):
        return None
    known = SHORT_GROUPS | _seen()
    return None if model_group in known else tuple(sorted(known))


def _seen() -> frozenset[str]:
    """Return the model groups of nodes that were ever watched, and of what pods hold now."""
    key = "labels__nvidia.com/gpu.product"
    products = NodeRecord.objects.order_by().values_list(key, flat=True).distinct()
    held = PodAllocation.objects.filter(end_at=None).order_by()
    groups = held.values_list("price_group", flat=True).distinct()
    return frozenset(
        {group_of_product(product) for product in products if product}
        | {group.partition("/")[0] for group in groups if group}
    )
