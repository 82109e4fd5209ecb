"""Which nodes a pod may land on, as far as their labels are known."""

from typing import Any

import pytest

from quotas.domain.admission.node_fit import NodeOffer, Placement, placement_of
from quotas.domain.admission.pod_fields import ENTRIES_MAX, PodInvalidError

PRODUCT = "nvidia.com/gpu.product"
H100 = {PRODUCT: "H100", "nvidia.com/gpu.memory": "80000"}


def requiring(*terms: dict[str, Any]) -> Placement:
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
    }
    return placement_of({"affinity": {"nodeAffinity": required}})


def term(key: str, operator: str, *values: str, where: str = "matchExpressions") -> dict[str, Any]:
    return {where: [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_pod_that_says_nothing_may_land_anywhere() -> None:
    assert placement_of({}) == Placement()
    assert Placement().may_land_on("n1", {})
    assert not Placement().names_nodes


def test_a_selector_on_a_known_label_decides() -> None:
    placement = placement_of({"nodeSelector": {PRODUCT: "H100"}})

    assert placement.may_land_on("n1", H100)
    assert not placement.may_land_on("n1", {PRODUCT: "A100"})
    assert not placement.may_land_on("n1", {})


def test_a_selector_on_a_label_nobody_keeps_may_hold() -> None:
    assert placement_of({"nodeSelector": {"zone": "a"}}).may_land_on("n1", H100)


def test_a_named_node_is_the_only_one() -> None:
    placement = placement_of({"nodeName": "n1"})

    assert placement.names_nodes
    assert placement.may_land_on("n1", H100)
    assert not placement.may_land_on("n2", H100)


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        (PRODUCT, "In", ("A100", "H100"), True),
        (PRODUCT, "In", ("A100",), False),
        (PRODUCT, "NotIn", ("A100",), True),
        (PRODUCT, "NotIn", ("H100",), False),
        (PRODUCT, "Exists", (), True),
        ("nvidia.com/gpu.count", "Exists", (), False),
        ("nvidia.com/gpu.count", "DoesNotExist", (), True),
        (PRODUCT, "DoesNotExist", (), False),
        ("nvidia.com/gpu.memory", "Gt", ("40000",), True),
        ("nvidia.com/gpu.memory", "Gt", ("80000",), False),
        ("nvidia.com/gpu.memory", "Lt", ("90000",), True),
        ("nvidia.com/gpu.memory", "Lt", ("80000",), False),
        ("nvidia.com/gpu.count", "Gt", ("1",), False),
        (PRODUCT, "Gt", ("1",), True),
        ("nvidia.com/gpu.memory", "Gt", ("1", "2"), True),
        ("nvidia.com/gpu.memory", "Beyond", ("1",), True),
        ("zone", "In", ("a",), True),
        ("zone", "DoesNotExist", (), True),
    ],
)
def test_a_required_condition_holds_or_is_known_to_fail(
    key: str,
    operator: str,
    values: tuple[str, ...],
    holds: bool,  # noqa: FBT001 - A table.
) -> None:
    assert requiring(term(key, operator, *values)).may_land_on("n1", H100) is holds


def test_one_term_is_enough_and_all_of_its_conditions_must_hold() -> None:
    both = {
        **term(PRODUCT, "Exists"),
        "matchFields": term("metadata.name", "In", "n2")["matchExpressions"],
    }
    placement = requiring(term(PRODUCT, "In", "A100"), both, {})

    assert placement.names_nodes
    assert placement.may_land_on("n2", H100)
    assert not placement.may_land_on("n1", H100)


def test_nodes_that_are_alike_differ_only_by_name() -> None:
    alike = frozenset({"n1", "n2"})
    named = requiring(term("metadata.name", "In", "n2", where="matchFields"))

    assert named.may_land_on_any(alike, H100)
    assert not named.may_land_on_any(frozenset({"n1"}), H100)
    assert placement_of({"nodeSelector": {PRODUCT: "H100"}}).may_land_on_any(alike, H100)


def test_preferred_affinity_binds_nobody() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}

    assert placement_of({"affinity": {"nodeAffinity": preferred}}) == Placement()


@pytest.mark.parametrize("values", ["H100", {}, ["x"] * (ENTRIES_MAX + 1), [1]])
def test_values_that_are_no_list_of_texts_are_refused(values: object) -> None:
    broken = {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": values}]}

    with pytest.raises(PodInvalidError):
        requiring(broken)


def test_the_nodes_of_several_offers_are_named() -> None:
    offers = [
        NodeOffer(frozenset({"n1", "n2"}), H100, {}),
        NodeOffer(frozenset({"n3"}), {PRODUCT: "A100"}, {}),
    ]

    placement = placement_of({"nodeSelector": {PRODUCT: "H100"}})

    assert placement.nodes_within(offers) == {"n1", "n2"}


def test_a_condition_without_values_is_read() -> None:
    exists = {"matchExpressions": [{"key": PRODUCT, "operator": "Exists"}]}

    assert requiring(exists).may_land_on("n1", H100)
