"""Names of GPU models, and which of them the catalogue knows without a node."""

import pytest

from metering.domain.catalogue.model_groups import group_of_product, is_named
from metering.domain.catalogue.sizing import DEFAULT_RULES, Rule
from metering.domain.catalogue.units import GPUSize


@pytest.mark.parametrize(
    ("product", "group"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100"),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "A100"),
        ("NVIDIA-L40S", "L40S"),
        ("Tesla-T4", "Tesla-T4"),
    ],
)
def test_a_product_has_the_group_of_its_price_group(product: str, group: str) -> None:
    assert group_of_product(product) == group


@pytest.mark.parametrize("name", ["H100", "A100", "H100-PCIe", "A100-SXM4-40GB", "A30"])
def test_short_names_and_models_that_can_be_cut_are_named(name: str) -> None:
    assert is_named(name, rules=DEFAULT_RULES)


@pytest.mark.parametrize("name", ["H1OO", "h100", "L40S", "X-MIG-1g.5gb"])
def test_other_names_are_not(name: str) -> None:
    assert not is_named(name, rules=DEFAULT_RULES)


@pytest.mark.parametrize(
    ("pattern", "is_known"),
    [("NVIDIA-L40S*", True), ("L40S", True), ("*", False), ("NVIDIA-*", False), ("*-MIG-*", False)],
)
def test_a_rule_names_the_models_of_its_products(pattern: str, *, is_known: bool) -> None:
    rule = Rule(GPUSize.LARGE, ("nvidia.com/gpu",), products=(pattern,))

    assert is_named("L40S", rules=(rule,)) is is_known
