"""Rules are data: the first that holds in every condition decides."""

import pytest

from metering.domain.catalogue.sizing import (
    DEFAULT_RULES,
    Rule,
    RuleInput,
    rule_from_json,
    rule_to_json,
    rules_digest,
)
from metering.domain.catalogue.units import GPUSize

H100 = "NVIDIA-H100-80GB-HBM3"


@pytest.mark.parametrize(
    ("change", "is_match"),
    [
        ({}, True),
        ({"resource": "nvidia.com/gpu.shared"}, False),
        ({"product": "NVIDIA-A30"}, False),
        ({"mig_strategy": "mixed"}, False),
        ({"sharing": "mps"}, False),
        ({"replicas": 1}, False),
        ({"replicas": 8}, True),
    ],
)
def test_a_rule_holds_when_every_condition_does(
    change: dict[str, object], *, is_match: bool
) -> None:
    rule = Rule(
        GPUSize.SMALL,
        ("nvidia.com/gpu",),
        products=("NVIDIA-H100*", "NVIDIA-H200*"),
        mig_strategy="single",
        sharing=("time-slicing",),
        replicas_min=2,
    )
    facts = {
        "resource": "nvidia.com/gpu",
        "product": H100,
        "mig_strategy": "single",
        "sharing": "time-slicing",
        "replicas": 4,
    }

    assert rule.matches(RuleInput(**{**facts, **change})) is is_match  # type: ignore[arg-type]


def test_rules_survive_being_stored() -> None:
    assert tuple(rule_from_json(rule_to_json(rule)) for rule in DEFAULT_RULES) == DEFAULT_RULES


def test_the_default_rules_never_change_without_a_new_version() -> None:
    digest = "10c2982f41354957d6e22dd1e950df52353a3f5f3d0980bf6590ef49228f47c4"

    assert rules_digest(DEFAULT_RULES) == digest
    assert rules_digest(DEFAULT_RULES[1:]) != digest
