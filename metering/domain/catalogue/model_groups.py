"""Model groups: the names of GPU models, as price groups and limits spell them before the slash."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from metering.domain.catalogue.mig_geometry import geometry_of
from metering.domain.catalogue.sizing import MIG_MARK, SHARED_ENDING, SHORT_MODELS, Rule

_MAKER: Final = "NVIDIA-"
SHORT_GROUPS: Final = frozenset(SHORT_MODELS.values())


def group_of_product(product: str) -> str:
    """Return the model group of a product label, such as "H100"; its endings do not matter."""
    model = product.removesuffix(SHARED_ENDING).partition(MIG_MARK)[0]
    return SHORT_MODELS.get(model, model.removeprefix(_MAKER))


def is_named(model_group: str, *, rules: Iterable[Rule]) -> bool:
    """Whether the catalogue names a model group, whether or not a node of it was ever observed.

    It does so by a short name, by the geometry of MIG, or by a product in one of its rules. A
    pattern that matches every product names none.

    Args:
        model_group: Such as "H100".
        rules: Those of the catalogue in force.
    """
    products = (model_group, f"{_MAKER}{model_group}")
    return (
        model_group in SHORT_GROUPS
        or geometry_of(products[1]) is not None
        or any(
            fnmatchcase(product, pattern)
            for rule in rules
            for pattern in rule.products
            for product in products
            if MIG_MARK not in pattern and pattern.strip("*?").removeprefix(_MAKER)
        )
    )
