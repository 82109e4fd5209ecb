"""Proposed rules are read strictly, and their differences are reported before they are stored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.editing import (
    RULES_MAX,
    SeenHardware,
    SizingDifference,
    differences,
    read_rules,
)
from metering.domain.catalogue.sizing import DEFAULT_RULES, Catalogue, Rule, rule_to_json
from metering.domain.catalogue.units import GPUSize

H100 = {
    "nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3",
    "nvidia_com_gpu_replicas": "1",
}
L40S = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.replicas": "1"}
WHOLE = {"size": "large", "resources": ["nvidia.com/gpu"]}
DEFAULTS = [rule_to_json(rule) for rule in DEFAULT_RULES]


def seen(labels: dict[str, str], *, size: str = "large", unit_seconds: int = 3600) -> SeenHardware:
    return SeenHardware(
        resource="nvidia.com/gpu",
        labels=labels,
        size=size,
        price_group="H100/whole",
        open_units=2,
        unit_seconds=unit_seconds,
    )


def test_the_default_rules_read_back_as_they_are_stored() -> None:
    assert read_rules(DEFAULTS) == (DEFAULT_RULES, ())


def test_conditions_left_out_hold_for_everything() -> None:
    rules, problems = read_rules([WHOLE])

    assert problems == ()
    assert rules == (Rule(GPUSize.LARGE, ("nvidia.com/gpu",)),)


def test_a_rule_may_refuse() -> None:
    rules, _ = read_rules([{"size": None, "resources": ["nvidia.com/*"]}])

    assert rules[0].size is None


@pytest.mark.parametrize("proposed", [None, {}, [], "rules", [WHOLE] * (RULES_MAX + 1)])
def test_rules_are_a_list_of_some(proposed: object) -> None:
    rules, problems = read_rules(proposed)

    assert rules == ()
    assert [(one.field, one.code) for one in problems] == [("rules", "catalogue_rule_invalid")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"size": "huge"}, "rules[1].size"),
        ({"size": 1}, "rules[1].size"),
        ({"resources": []}, "rules[1].resources"),
        ({"resources": "nvidia.com/gpu"}, "rules[1].resources"),
        ({"resources": [""]}, "rules[1].resources[0]"),
        ({"resources": ["a", 7]}, "rules[1].resources[1]"),
        ({"resources": ["a\nb"]}, "rules[1].resources[0]"),
        ({"products": ["x" * 201]}, "rules[1].products[0]"),
        ({"products": ["x"] * 101}, "rules[1].products"),
        ({"mig_strategy": "double"}, "rules[1].mig_strategy"),
        ({"sharing": ["vgpu"]}, "rules[1].sharing"),
        ({"replicas_min": -1}, "rules[1].replicas_min"),
        ({"replicas_min": True}, "rules[1].replicas_min"),
        ({"replicas_min": 1.5}, "rules[1].replicas_min"),
        ({"weight": 3}, "rules[1].weight"),
    ],
)
def test_a_problem_names_its_field(change: dict[str, Any], field: str) -> None:
    rules, problems = read_rules([WHOLE, {**WHOLE, **change}])

    assert rules == ()
    assert field in [one.field for one in problems]
    assert all(one.message.endswith(".") for one in problems)


def test_a_rule_without_a_size_is_reported() -> None:
    _, problems = read_rules([{"resources": ["nvidia.com/gpu"]}])

    assert [one.field for one in problems] == ["rules[0].size"]


def test_a_rule_is_an_object() -> None:
    _, problems = read_rules(["large"])

    assert [(one.field, one.message) for one in problems] == [("rules[0]", "A rule is an object.")]


def test_every_problem_is_reported_at_once() -> None:
    _, problems = read_rules([{"size": "huge"}, {"resources": ["a"], "replicas_min": "2"}])

    assert [one.field for one in problems] == [
        "rules[0].size",
        "rules[0].resources",
        "rules[1].size",
        "rules[1].replicas_min",
    ]


def test_nothing_differs_from_the_same_rules() -> None:
    before = Catalogue(version=1, rules=DEFAULT_RULES)

    assert differences(before, Catalogue(2, DEFAULT_RULES), seen=[seen(H100), seen(L40S)]) == ()


def test_a_difference_shows_both_names_and_how_much_there_is() -> None:
    rules, _ = read_rules(
        [{"size": "medium", "resources": ["nvidia.com/gpu"], "products": ["*L40S*"]}, *DEFAULTS]
    )

    found = differences(
        Catalogue(1, DEFAULT_RULES), Catalogue(2, rules), seen=[seen(H100), seen(L40S)]
    )

    assert found == (
        SizingDifference(
            resource="nvidia.com/gpu",
            product="NVIDIA-L40S",
            before="large L40S/whole",
            after="medium L40S/whole",
            is_refused=False,
            open_units=2,
            unit_seconds=3600,
        ),
    )


def test_hardware_that_would_be_refused_is_marked_and_the_most_used_comes_first() -> None:
    refusing = Catalogue(2, (Rule(None, ("nvidia.com/*",)),))

    found = differences(
        Catalogue(1, DEFAULT_RULES),
        refusing,
        seen=[seen(L40S, unit_seconds=1), seen(H100, unit_seconds=5)],
    )

    assert [(one.product, one.after, one.is_refused) for one in found] == [
        ("NVIDIA-H100-80GB-HBM3", "No catalogue rule gives it a size.", True),
        ("NVIDIA-L40S", "No catalogue rule gives it a size.", True),
    ]


def test_hardware_without_labels_has_no_product() -> None:
    found = differences(
        Catalogue(1, DEFAULT_RULES), Catalogue(2, DEFAULT_RULES[:1]), seen=[seen({}), seen(H100)]
    )

    assert [one.product for one in found] == ["NVIDIA-H100-80GB-HBM3"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*DEFAULTS[0], "other"]), inner, max_size=6)
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_whatever_comes_in_is_either_rules_or_problems(proposed: list[Any]) -> None:
    rules, problems = read_rules(proposed)

    assert bool(rules) != bool(problems)
