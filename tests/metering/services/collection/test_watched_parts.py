"""An hour of two sources in parts: pods, claims, decisions and refusals as of one metered whole."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import transaction

from metering.domain.collection.reconciliation import Side
from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import (
    MeteringException,
    MeteringWindow,
    UsageRecord,
    WindowDivision,
    WindowPart,
)
from metering.protocols import Observation
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.division.leasing import lease_part
from metering.services.collection.sweeping import Worker, meter_due, meter_next
from metering.services.collection.windows import claim_windows
from metering.services.corrections.exceptions import accept_side
from tenants.domain.actors import Actor, ActorKind
from tenants.models import Cluster, Project
from tests.support.builders import make_user
from tests.support.metering.allocations.watched import (
    UNSIZED,
    ledgered,
    offered,
    queued,
    reserved,
    watched,
)
from tests.support.metering.collecting import DUE
from tests.support.metering.ledger import Rows, everything
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    ReplayedSource,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    ticks,
)
from tests.support.sampling import sampled

CLAIM = "claim/gpu.nvidia.com"
UNDIVIDED = DEFAULT_POLICY


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The open window.
    """A cluster whose watch was healthy all the time, on two nodes that both sources saw."""
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster)
    offered(cluster)
    offered(cluster, "node-2")


def agreeing(cluster: Cluster) -> Observation:
    """Both sources tell the same of pods all over the parts."""
    seen = []
    for number in range(16):
        uid = f"{number:x}-agreed"
        where = f"node-{1 + number % 2}"
        ledgered(cluster, uid, -600, node=where)
        seen.append(pod(uid, node=where, last_seen_at=moment(4470)))
    return observation(*seen, nodes=(node(), node("node-2")))


def differing(cluster: Cluster) -> Observation:
    """Each source reports pods that the other does not, and both report one with other times."""
    ledgered(cluster, "1-only-the-api")
    ledgered(cluster, "2-both", 600, 1500)
    ledgered(cluster, "c-request", units=2)
    ledgered(cluster, "zz-odd", -600)
    return observation(
        ended_pod("2-both", 600, 2900),
        pod("9-only-prometheus"),
        pod("c-request", units=3),
        pod("zz-odd"),
    )


def unsized(cluster: Cluster) -> Observation:
    """Pods without a size, in no project, and with labels that cannot be parsed."""
    ledgered(cluster, "3-unsized", node_labels={}, **UNSIZED)
    ledgered(cluster, "a-stray", namespace="stray")
    ledgered(cluster, "f-sized")
    return observation(
        pod("3-unsized", labels={}), pod("a-stray", namespace="stray"), pod("f-sized")
    )


def crowded(cluster: Cluster) -> Observation:
    """Pods of many parts use more of one node together than it offered."""
    seen = []
    for number in range(12):
        uid = f"{number:x}-crowd"
        ledgered(cluster, uid)
        seen.append(pod(uid))
    return observation(*seen)


def claiming(cluster: Cluster) -> Observation:
    """Claims whose pods are of other parts than they."""
    ledgered(cluster, "0-claim", resource=CLAIM, units=2)
    reserved(cluster, "0-claim", "f-user", -600)
    reserved(cluster, "0-claim", "7-user", 0)
    ledgered(cluster, "f-claim", 0, 3000, resource=CLAIM, node="node-2")
    reserved(cluster, "f-claim", "0-user", 600, 1200)
    ledgered(cluster, "0-user")
    return observation(pod("0-user"))


def refused(cluster: Cluster) -> Observation:
    """Pods with fields in the API that are not believed."""
    for uid in ("4-refused", "b-refused"):
        row = queued(cluster, uid)
        row.requests = {"nvidia.com/gpu": "many"}
        row.defects = ["It asks for no number."]
        row.save()
    ledgered(cluster, "5-sound")
    return observation(pod("5-sound"))


def holed(cluster: Cluster) -> Observation:
    """A hole in the scrapes that the watch covers, with pods that ended in it."""
    for number in range(6):
        ledgered(cluster, f"{number:x}-in-the-hole", -600, 900 + number if number < 3 else None)
    kept = tuple(at for at in ticks() if not 700 <= (at - HOUR).total_seconds() <= 1100)
    seen = [pod(f"{number:x}-in-the-hole") for number in range(3, 6)]
    return observation(*seen, ticks=kept)


def unscraped(cluster: Cluster) -> Observation:
    """Prometheus shows no pod at all, although it was scraping."""
    for number in range(5):
        ledgered(cluster, f"{number:x}-alone")
    return observation()


CASES = (
    agreeing,
    differing,
    unsized,
    crowded,
    claiming,
    refused,
    holed,
    unscraped,
)
DIVIDED = [
    (case, parts)
    for number, case in enumerate(CASES)
    for parts in ((2, 16) if number % 2 else (16, 2))
]
"""Each case with both numbers of parts; the first of the two in turns."""


def metered(
    seen: Callable[[Cluster], Observation], cluster: Cluster, *, parts: int, again: bool = False
) -> Rows:
    """Return what metering leaves behind, and take it back."""
    with transaction.atomic():
        worker = worker_of(seen(cluster), parts=parts)
        meter(worker, again=again)
        found = everything()
        assert not WindowDivision.objects.exists()
        transaction.set_rollback(True)
    return found


def worker_of(seen: Observation, *, parts: int) -> Worker:
    """Return a worker that divides each window into so many parts; 1 divides none."""
    policy = UNDIVIDED
    if parts > 1:
        policy = replace(policy, pods_undivided_max=0, part_pods=1)
    source = ReplayedSource({seen.start_at: seen}, counted=parts)
    return Worker(name="worker-1", source=source, actor=ACTOR, policy=policy)


def meter(worker: Worker, *, again: bool = False) -> None:
    """Meter the one open window; again after it was metered, as a person may ask for."""
    MeteringWindow.objects.exclude(state="sealed").update(not_before=DUE)
    meter_due(worker=worker, at=DUE)
    if again:
        MeteringWindow.objects.exclude(state="sealed").update(state="open", not_before=DUE)
        meter_due(worker=worker, at=DUE)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("case", "parts"),
    sampled(DIVIDED, every=2),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_an_hour_of_two_sources_has_the_same_rows_in_parts(
    case: Callable[[Cluster], Observation], parts: int, cluster: Cluster
) -> None:
    whole = metered(case, cluster, parts=1)

    assert metered(case, cluster, parts=parts) == whole


@pytest.mark.django_db
@pytest.mark.parametrize("case", [crowded, differing], ids=lambda case: case.__name__)
def test_an_hour_that_is_metered_again_in_parts_keeps_no_former_row(
    case: Callable[[Cluster], Observation], cluster: Cluster
) -> None:
    whole = metered(case, cluster, parts=1, again=True)

    assert metered(case, cluster, parts=16, again=True) == whole


@pytest.mark.django_db
def test_evidence_that_is_accepted_between_two_parts_is_billed(cluster: Cluster) -> None:
    worker = worker_of(differing(cluster), parts=4)
    MeteringWindow.objects.update(not_before=DUE)
    differs = MeteringException.objects.filter(subject__startswith="2-both")
    while not differs.exists():
        assert meter_next(worker=worker, at=DUE) is not None
    assert WindowDivision.objects.get().is_settled

    frank = Actor(kind=ActorKind.PERSON, id=str(make_user("frank").pk), label="frank")
    accept_side(
        exception_id=differs.get().pk,
        side=Side.PROMETHEUS,
        note="The node's log says so.",
        actor=frank,
        at=DUE,
    )
    meter_due(worker=worker, at=DUE)

    assert UsageRecord.objects.get(pod_uid="2-both").unit_seconds == 2300
    window = MeteringWindow.objects.get()
    assert (window.state, window.reconciliation["pods"]["accepted"]) == ("sealed", 1)
    assert differs.get().state == "resolved"


@pytest.mark.django_db
def test_evidence_that_is_accepted_while_all_parts_are_leased_is_billed_at_once(
    cluster: Cluster,
) -> None:
    worker = worker_of(differing(cluster), parts=4)
    MeteringWindow.objects.update(not_before=DUE)
    differs = MeteringException.objects.filter(subject__startswith="2-both")
    while not differs.exists():
        assert meter_next(worker=worker, at=DUE) is not None
    while WindowPart.objects.filter(state="due").exists():
        (claimed,) = claim_windows(worker="gone", limit=1, at=DUE)
        lease_part(claimed, worker="gone", policy=DEFAULT_POLICY)
    assert claim_windows(worker="next", limit=1, at=DUE) == []

    accept_side(
        exception_id=differs.get().pk,
        side=Side.PROMETHEUS,
        note="The node's log says so.",
        actor=Actor(kind=ActorKind.PERSON, id=str(make_user("frank").pk), label="frank"),
        at=DUE,
    )
    meter_due(worker=worker, at=DUE)

    assert UsageRecord.objects.get(pod_uid="2-both").unit_seconds == 2300
    assert MeteringWindow.objects.get().state == "sealed"


@pytest.mark.django_db
def test_a_node_that_pods_of_many_parts_overfill_blocks_the_window(cluster: Cluster) -> None:
    worker = worker_of(crowded(cluster), parts=16)

    meter(worker)

    window = MeteringWindow.objects.get()
    finding = MeteringException.objects.get(kind="over_capacity")
    assert (window.state, finding.state) == ("collected", "open")
    assert finding.details["used_unit_seconds"] == 12 * 3600
    assert finding.details["capacity_unit_seconds"] == 8 * 3600
    assert window.shown["pods"] == 12
    assert window.record_count == UsageRecord.objects.count() == 12


@pytest.mark.django_db
def test_records_of_a_claim_are_posted_with_the_claim_whichever_pod_used_it(
    cluster: Cluster,
) -> None:
    worker = worker_of(claiming(cluster), parts=16)

    meter(worker, again=True)

    found = UsageRecord.objects.order_by("pod_uid", "resource").values_list("pod_uid", "resource")
    assert list(found) == [
        ("0-user", "claim/f-claim/gpu.nvidia.com"),
        ("0-user", "nvidia.com/gpu"),
        ("7-user", "claim/0-claim/gpu.nvidia.com"),
        ("f-claim", "claim/f-claim/gpu.nvidia.com"),
        ("f-user", "claim/0-claim/gpu.nvidia.com"),
    ]


@pytest.mark.django_db
def test_an_hour_without_a_source_to_ask_is_divided_by_its_former_size(cluster: Cluster) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(prometheus_url="")
    for number in range(16):
        ledgered(cluster, f"{number:x}-watched", node=f"node-{1 + number % 2}")
    MeteringWindow.objects.create(
        cluster=cluster,
        start_at=moment(-3600),
        state="sealed",
        not_before=HOUR,
        record_count=16,
        as_of=HOUR,
        collected_at=HOUR,
        sealed_at=HOUR,
    )
    worker = worker_of(observation(), parts=16)
    source = worker.source
    assert isinstance(source, ReplayedSource)

    meter(worker)

    window = MeteringWindow.objects.get(start_at=HOUR)
    assert (window.state, window.record_count) == ("sealed", 16)
    assert window.sources == ["kubernetes"]
    assert source.asked == []
