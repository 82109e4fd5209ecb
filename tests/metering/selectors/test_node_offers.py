"""What every node of a cluster offers now."""

import pytest
from pytest_django import DjangoAssertNumQueries

from metering.models import NodeRecord
from metering.selectors.allocations.offers import OfferingNode, nodes_offering
from tests.support.builders import AT, make_cluster

pytestmark = pytest.mark.django_db
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def test_open_records_with_gpus_are_reported_by_name(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    hopper, ampere = make_cluster(), make_cluster("ampere")
    units = {"nvidia.com/gpu": 8}
    rows = [
        (hopper, "n2", units, None),
        (hopper, "n1", units, None),
        (hopper, "n3", {}, None),
        (hopper, "n4", units, AT),
        (ampere, "n5", units, None),
    ]
    for cluster, node, allocatable, end_at in rows:
        NodeRecord.objects.create(
            cluster=cluster,
            node=node,
            node_uid=node,
            labels=PRODUCT,
            allocatable=allocatable,
            is_ready=False,
            begin_at=AT,
            end_at=end_at,
        )

    with django_assert_num_queries(1):
        found = nodes_offering(hopper.pk)

    assert found == (OfferingNode("n1", PRODUCT, units), OfferingNode("n2", PRODUCT, units))
