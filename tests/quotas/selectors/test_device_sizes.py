"""What enforcement believes of a resource name, from metering's evidence."""

from datetime import timedelta

from metering.domain.catalogue.sizing import Rule, rule_to_json
from metering.domain.catalogue.units import GPUSize
from metering.models import CatalogueVersion
from metering.selectors.devices.usage import SEEN_WITHIN, sizes_seen
from quotas.services.enforcement.targets import refresh_targets
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit, see_size
from tests.support.shared_rows import shared_rows

GPU = "nvidia.com/gpu"


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8)
    make_limit(cast.acme, cast.llm, size="small", units=20)
    return cluster


def gpu_units(cluster: Cluster) -> int:
    refresh_targets(at=AT, actor=system_actor("tests"))
    units: int = cluster.targets.get().desired_hard[f"requests.{GPU}"]
    return units


def test_sizes_are_seen_per_cluster_and_name_within_two_days(hopper: Cluster) -> None:
    other = make_cluster("ampere")
    see_size(hopper, GPU, "large")
    see_size(hopper, GPU, "small", at=AT - timedelta(hours=3))
    see_size(hopper, GPU, "medium", at=AT - SEEN_WITHIN - timedelta(hours=1))
    see_size(hopper, "nvidia.com/odd", "")
    see_size(other, GPU, "small")

    assert sizes_seen(at=AT) == {
        (hopper.pk, GPU): {GPUSize.LARGE, GPUSize.SMALL},
        (other.pk, GPU): {GPUSize.SMALL},
    }


def test_an_unseen_name_counts_to_the_largest(hopper: Cluster) -> None:
    assert gpu_units(hopper) == 8


def test_a_cluster_of_shares_counts_to_small(hopper: Cluster) -> None:
    see_size(hopper, GPU, "small")

    assert gpu_units(hopper) == 20


def test_a_mixed_cluster_counts_to_the_largest(hopper: Cluster) -> None:
    see_size(hopper, GPU, "small")
    see_size(hopper, GPU, "large")

    assert gpu_units(hopper) == 8


def test_the_newest_stored_catalogue_is_in_force(hopper: Cluster) -> None:
    rules = [rule_to_json(Rule(GPUSize.SMALL, (GPU,)))]
    CatalogueVersion.objects.create(version=99, rules=rules, digest="d", created_at=AT)

    assert gpu_units(hopper) == 20
    assert hopper.targets.get().desired_hard["requests.nvidia.com/mig-1g.10gb"] == 0
