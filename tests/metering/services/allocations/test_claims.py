"""A device claim is one allocation, sized by its devices, shared by the pods it is reserved for."""

import pytest

from metering.domain.collection.claim_split import split_claim
from metering.models import ClaimConsumer, OfferedDevice, PodAllocation
from metering.protocols.watch import ClaimState, PodState, WatchedKind
from metering.selectors.allocations.ledger import claim_uses
from tenants.models import Cluster, Project
from tests.support.metering.allocations.states import (
    DRIVER,
    Watching,
    deleted,
    ends,
    event,
    reported_claim,
    reported_pod,
    reported_slice,
    second_of,
)
from tests.support.metering.seen import HOUR, moment

ROW = ("resource", "units", "size", "price_group", "node", "pod_name", "source")


def rows() -> list[tuple[object, ...]]:
    return list(PodAllocation.objects.order_by("resource").values_list(*ROW))


def claiming(
    uid: str, bound: int = 0, *, finished: int | None = None, owner: str = "ada"
) -> PodState:
    claims = ("name-of-claim-1",)
    return reported_pod(
        uid, requests=(), claims=claims, bound=bound, finished=finished, owner=owner
    )


def test_an_allocated_claim_is_a_row_sized_by_its_device(
    watching: Watching, project: Project
) -> None:
    watching.list(1, reported_slice())
    done = watching.tell(
        event(reported_claim(consumers=["a"]), 5),
        event(reported_claim("claim-2", devices=["gpu-1-mig-1"], device_class="mig.nvidia.com"), 6),
    )

    assert rows() == [
        (f"claim/{DRIVER}", 1, "large", "H100/whole", "node-1", "name-of-claim-1", "kubernetes"),
        (
            "claim/mig.nvidia.com",
            1,
            "small",
            "H100/1g.10gb",
            "node-1",
            "name-of-claim-2",
            "kubernetes",
        ),
    ]
    assert ends() == [("claim-1", 5, None, "open", 0), ("claim-2", 6, None, "open", 0)]
    assert (done.states, done.opened, done.closed) == (2, 2, 0)
    assert set(PodAllocation.objects.values_list("project_id", flat=True)) == {project.id}


def test_a_claim_that_holds_nothing_yet_is_no_row(watching: Watching) -> None:
    watching.tell(event(reported_claim(devices=()), 5))

    assert rows() == []


def test_a_claim_begins_when_it_was_allocated_or_its_pod_was_bound(watching: Watching) -> None:
    watching.list(100, claiming("a", bound=40), kind=WatchedKind.PODS)
    watching.list(
        100,
        reported_claim(consumers=["a"]),
        reported_claim("claim-2", allocated_at=moment(30)),
        reported_claim("claim-3"),
    )

    assert [(uid, begin) for uid, begin, *_ in ends()] == [
        ("claim-1", 40),
        ("claim-2", 30),
        ("claim-3", 100),
    ]


def test_a_deallocated_and_a_deleted_claim_end_to_the_second(watching: Watching) -> None:
    watching.tell(event(reported_claim(), 5), event(reported_claim("claim-2"), 5))
    watching.tell(event(reported_claim(devices=()), 20), deleted(reported_claim("claim-2"), 22))

    assert ends() == [("claim-1", 5, 20, "vanished", 0), ("claim-2", 5, 22, "vanished", 0)]


def test_a_claim_that_is_gone_at_a_list_is_bounded(watching: Watching) -> None:
    watching.tell(event(reported_claim(consumers=["a"]), 5))
    watching.beat(30)
    watching.list(600, kind=WatchedKind.CLAIMS)

    assert ends() == [("claim-1", 5, 30, "vanished_in_gap", 570)]
    assert second_of(ClaimConsumer.objects.get().end_at) == 600


def test_duplicates_and_what_comes_after_the_end_change_nothing(watching: Watching) -> None:
    reported = reported_claim(consumers=["a"])
    watching.tell(event(reported, 5))
    watching.tell(event(reported, 6), deleted(reported, 20))
    before = (PodAllocation.objects.values().get(), ClaimConsumer.objects.values().get())
    watching.tell(event(reported, 21))
    watching.tell(deleted(reported, 25))

    assert (PodAllocation.objects.values().get(), ClaimConsumer.objects.values().get()) == before


def test_a_claim_that_is_allocated_again_for_another_pod_is_another_row(
    watching: Watching,
) -> None:
    watching.list(1, reported_slice())
    watching.tell(event(reported_claim(consumers=["a"]), 5))
    watching.tell(event(reported_claim(devices=()), 15))
    watching.tell(event(reported_claim(devices=["gpu-1-mig-1"], consumers=["b"]), 25))

    assert ends() == [("claim-1", 5, 15, "vanished", 0), ("claim-1", 25, None, "open", 0)]
    assert [(row[0], row[2]) for row in rows()] == [
        (f"claim/{DRIVER}", "large"),
        (f"claim/{DRIVER}#2", "small"),
    ]


def test_devices_that_are_not_alike_are_never_guessed(watching: Watching) -> None:
    watching.list(1, reported_slice())
    watching.tell(event(reported_claim(devices=["gpu-0", "gpu-1-mig-1"]), 5))

    assert [row[:3] for row in rows()] == [(f"claim/{DRIVER}", 2, "")]


def test_a_claim_whose_device_nobody_knew_is_sized_when_its_slice_comes(
    watching: Watching,
) -> None:
    watching.tell(event(reported_claim(), 5))
    assert [row[2] for row in rows()] == [""]

    watching.list(6, reported_slice())
    watching.list(7, reported_claim())

    assert [row[2:4] for row in rows()] == [("large", "H100/whole")]


def test_a_list_of_pods_ends_no_claim_and_one_of_claims_no_pod(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.tell(event(reported_claim(), 5))
    watching.list(20, reported_pod())
    watching.list(20, reported_claim())

    assert {end for _, _, end, *_ in ends()} == {None}


def test_a_claim_is_split_among_its_pods_from_their_binds_to_their_ends(
    cluster: Cluster, watching: Watching
) -> None:
    watching.tell(event(reported_claim(consumers=["a"], allocated_at=HOUR), 5))
    watching.tell(event(claiming("a"), 6), event(claiming("b", bound=10, owner="bob"), 15))
    watching.tell(event(reported_claim(consumers=["a", "b"]), 16))
    watching.tell(deleted(claiming("b", bound=10, finished=18), 19))
    watching.tell(event(reported_claim(consumers=["a"]), 21))

    uses = claim_uses(cluster.id, claim_uids=["claim-1"])
    assert [
        (use.pod_uid, use.owner, second_of(use.begin_at), second_of(use.end_at)) for use in uses
    ] == [("a", "ada", 0, None), ("b", "bob", 10, 18)]
    parts = split_claim(units=1, begin_at=HOUR, end_at=moment(100), uses=[use.use for use in uses])
    assert [(part.pod_uid, part.unit_seconds) for part in parts] == [("a", 96), ("b", 4)]


def uses() -> list[tuple[str, int | None, int | None]]:
    return [
        (row.pod_uid, second_of(row.begin_at), second_of(row.end_at))
        for row in ClaimConsumer.objects.order_by("pod_uid", "begin_at")
    ]


def test_a_pod_that_is_known_uses_a_claim_from_its_bind_to_its_end(watching: Watching) -> None:
    watching.list(100, claiming("a", bound=40), claiming("b", bound=50))
    watching.list(100, reported_claim(consumers=["a", "b", "unknown"]))
    assert uses() == [("a", 40, None), ("b", 50, None), ("unknown", 100, None)]

    watching.tell(deleted(claiming("a", bound=40, finished=110), 112))
    watching.tell(event(reported_claim(consumers=["b"]), 120))

    assert uses() == [("a", 40, 110), ("b", 50, None), ("unknown", 100, 120)]


def test_a_pod_that_came_and_went_in_one_batch_is_kept(watching: Watching) -> None:
    watching.tell(event(claiming("a", bound=3), 4), deleted(claiming("a", bound=3, finished=9), 10))
    watching.tell(
        event(reported_claim(consumers=["a"]), 11), event(reported_claim(consumers=["b"]), 12)
    )

    assert uses() == [("a", 3, 9), ("b", 12, None)]


def test_slices_tell_what_each_device_is_and_when_it_went(watching: Watching) -> None:
    watching.list(
        1, reported_slice(), reported_slice("slice-2", devices={"gpu-9": {"type": "gpu"}})
    )
    watching.tell(event(reported_slice(devices={"gpu-0": {"type": "gpu", "uuid": "x"}}), 10))
    watching.tell(deleted(reported_slice("slice-2"), 20))

    offered = OfferedDevice.objects.order_by("device")
    assert [(row.device, row.attributes, second_of(row.gone_at)) for row in offered] == [
        ("gpu-0", {"type": "gpu"}, None),
        (
            "gpu-1-mig-1",
            {"type": "mig", "productName": "NVIDIA H100 80GB HBM3", "profile": "1g.10gb"},
            10,
        ),
        ("gpu-9", {"type": "gpu"}, 20),
    ]

    watching.list(30, reported_slice("slice-2", devices={"gpu-9": {"type": "gpu"}}))

    assert [second_of(row.gone_at) for row in offered.all()] == [30, 10, None]


def test_a_device_that_moved_to_another_slice_stays(watching: Watching) -> None:
    watching.list(1, reported_slice())
    watching.tell(event(reported_slice("slice-2"), 10), deleted(reported_slice(), 11))

    assert set(OfferedDevice.objects.values_list("slice_name", "gone_at")) == {("slice-2", None)}


def test_a_list_that_lost_its_claims_ends_none_for_good(watching: Watching) -> None:
    reported = reported_claim(consumers=("a",))
    watching.list(4, reported_slice())
    watching.list(5, reported)
    watching.beat(10)
    watching.list(600, kind=WatchedKind.CLAIMS)
    assert ends() == [("claim-1", 5, 10, "vanished_in_gap", 590)]

    watching.list(1200, reported, version="200")

    assert ends() == [("claim-1", 5, None, "open", 0)]
    assert uses() == [("a", 5, None)]


def test_a_pod_that_leaves_a_claim_and_comes_back_uses_it_twice(
    cluster: Cluster, watching: Watching
) -> None:
    watching.list(4, claiming("a", bound=2), claiming("b", bound=3))
    watching.list(5, reported_claim(consumers=("a", "b")))
    watching.tell(event(reported_claim(consumers=("b",)), 100))
    watching.tell(event(reported_claim(consumers=("a", "b")), 200))

    found = claim_uses(cluster.id, claim_uids=["claim-1"])
    assert [(use.pod_uid, second_of(use.begin_at), second_of(use.end_at)) for use in found] == [
        ("a", 2, 100),
        ("b", 3, None),
        ("a", 200, None),
    ]
    watching.tell(event(reported_claim(consumers=("b",)), 300))
    assert uses() == [("a", 2, 100), ("a", 200, 300), ("b", 3, None)]


def extended(*consumers: str) -> ClaimState:
    return reported_claim(consumers=consumers, is_for_extended_resource=True)


def test_a_claim_that_the_scheduler_made_for_a_resource_is_counted_with_its_pod(
    watching: Watching,
) -> None:
    watching.list(4, reported_pod("a", bound=3))
    watching.list(5, extended("a"))

    assert [row[0] for row in rows()] == ["nvidia.com/gpu"]


@pytest.mark.parametrize(
    "pod",
    [
        claiming("a"),
        reported_pod("a", claims=("name-of-claim-1",)),
        reported_pod("b"),
    ],
    ids=["claim alone", "claim beside a resource", "unknown pod"],
)
def test_a_claim_that_only_says_so_is_a_row_like_any_other(
    watching: Watching, pod: PodState
) -> None:
    watching.list(1, reported_slice())
    watching.list(4, pod)
    watching.list(5, extended("a"))

    claimed = PodAllocation.objects.filter(pod_uid="claim-1", end_at=None)
    found = claimed.values_list("resource", "units", "size")
    assert list(found) == [(f"claim/{DRIVER}", 1, "large")]


def test_a_row_of_a_claim_whose_pod_comes_to_be_known_later_holds_nothing(
    watching: Watching,
) -> None:
    watching.tell(event(extended("a"), 5))
    assert ends() == [("claim-1", 5, None, "open", 0)]

    watching.tell(event(reported_pod("a", bound=5), 6))
    watching.tell(event(extended("a"), 7))

    assert ends() == [("a", 5, None, "open", 0), ("claim-1", 5, 5, "vanished", 0)]
