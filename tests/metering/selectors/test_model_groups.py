"""Model groups are known from the catalogue in force, from nodes and from what pods hold."""

import pytest

from metering.domain.catalogue.sizing import Rule, rule_to_json
from metering.domain.catalogue.units import GPUSize
from metering.models import CatalogueVersion, NodeRecord
from metering.selectors.catalogue import unknown_model_group
from tests.support.builders import AT, make_cluster
from tests.support.quotas.builders import hold

pytestmark = pytest.mark.django_db


def see_node(product: str) -> None:
    NodeRecord.objects.create(
        cluster=make_cluster("ada"),
        node="ada-1",
        node_uid="uid-1",
        labels={"nvidia.com/gpu.product": product},
        begin_at=AT,
        end_at=AT,
    )


def test_an_unknown_name_is_reported_the_known_ones() -> None:
    assert unknown_model_group("H1OO") == ("A100", "H100")
    assert unknown_model_group("") is None
    assert unknown_model_group("H100") is None
    assert unknown_model_group("H100-PCIe") is None


def test_the_model_of_a_node_is_known_even_when_it_is_gone() -> None:
    see_node("NVIDIA-L40S")

    assert unknown_model_group("L40S") is None
    assert unknown_model_group("L40") == ("A100", "H100", "L40S")


def test_what_a_pod_holds_is_known() -> None:
    hold(make_cluster("ada"), "llm", price_group="L4/whole")

    assert unknown_model_group("L4") is None


def test_a_rule_of_the_catalogue_in_force_names_a_model_to_come() -> None:
    rule = Rule(GPUSize.LARGE, ("nvidia.com/gpu",), products=("NVIDIA-B300*",))
    newest = CatalogueVersion.objects.order_by("-version").first()
    CatalogueVersion.objects.create(
        version=1 if newest is None else newest.version + 1,
        rules=[rule_to_json(rule)],
        digest="b300",
        created_at=AT,
    )

    assert unknown_model_group("B300") is None
