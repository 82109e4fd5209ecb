"""What a namespace's quota has left: as it was read, less what was admitted there since."""

from datetime import timedelta

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.values import Demand, PodQuestion
from quotas.models import EnforcementTarget, Reservation
from quotas.selectors.admission.caps import CapShortage, cap_shortages
from tenants.models import Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.shared_rows import shared_rows

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
HARD = {f"requests.{GPU}": 4, f"requests.{MIG}": 2}


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster()
    EnforcementTarget.objects.create(
        cluster=cluster,
        namespace="llm",
        project=cast.llm,
        live_hard=HARD,
        live_burst={f"requests.{GPU}": 1},
        checked_at=AT,
        not_before=AT,
    )
    return cluster


def reserve(cluster: Cluster, cast: Cast, units: int, **columns: object) -> None:
    Reservation.objects.create(
        cluster=cluster,
        pod_uid=f"uid-{Reservation.objects.count()}",
        resource=GPU,
        pod_name="trainer",
        organization=cast.acme,
        project=cast.llm,
        size="large",
        units=units,
        origin="admission",
        admitted_at=AT,
        **{"namespace": "llm", "state": "reserved", **columns},
    )


def question(cluster: Cluster, *, is_burst: bool = False, **units: int) -> PodQuestion:
    names = {"gpu": (GPU, GPUSize.LARGE), "mig": (MIG, GPUSize.SMALL)}
    demands = tuple(Demand(*names[name], units=amount) for name, amount in units.items())
    return PodQuestion(cluster.pk, "llm", "uid", "pod", "", demands, is_burst=is_burst)


def test_what_was_admitted_in_the_namespace_is_used(hopper: Cluster, cast: Cast) -> None:
    reserve(hopper, cast, 1)
    reserve(hopper, cast, 1, state="held")
    reserve(hopper, cast, 8, state="released", released_at=AT)
    reserve(hopper, cast, 8, namespace="other")
    reserve(hopper, cast, 8, is_burst=True)

    assert cap_shortages(question(hopper, gpu=2), at=AT) == ()
    assert cap_shortages(question(hopper, gpu=3), at=AT) == (CapShortage(GPU, 4, 2, 3),)


def test_each_resource_is_compared_with_its_own_key(hopper: Cluster) -> None:
    assert cap_shortages(question(hopper, gpu=5, mig=3), at=AT) == (
        CapShortage(GPU, 4, 0, 5),
        CapShortage(MIG, 2, 0, 3),
    )
    assert cap_shortages(question(hopper, gpu=4, mig=3), at=AT) == (CapShortage(MIG, 2, 0, 3),)


def test_preemptible_pods_are_compared_with_the_burst_units(hopper: Cluster) -> None:
    assert cap_shortages(question(hopper, gpu=1, is_burst=True), at=AT) == ()
    assert cap_shortages(question(hopper, gpu=2, is_burst=True), at=AT) == (
        CapShortage(GPU, 1, 0, 2),
    )


def test_a_quota_that_was_read_long_ago_is_not_considered(hopper: Cluster) -> None:
    last = AT + timedelta(minutes=25)

    assert cap_shortages(question(hopper, gpu=5), at=last) == (CapShortage(GPU, 4, 0, 5),)
    assert cap_shortages(question(hopper, gpu=5), at=last + timedelta(seconds=1)) == ()
