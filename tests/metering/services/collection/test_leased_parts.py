"""Parts of a window are leased one at a time; the window is due for others meanwhile."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from metering.domain.collection.parts import Part, parts_of
from metering.domain.collection.scrape_coverage import ScrapeCoverage
from metering.domain.collection.windows import DEFAULT_POLICY
from metering.domain.errors import ClaimLostError
from metering.models import MeteringWindow, WindowDivision, WindowPart
from metering.protocols.parts import Frame, Settled
from metering.selectors.allocations.watch import WatchCoverage
from metering.selectors.collection.windows import parts_progress
from metering.selectors.locks import holds_claim, holds_part, lock_ledger_part
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.division.leasing import (
    ClaimedPart,
    NoPart,
    claim_back,
    dissolve,
    divide,
    finish_part,
    lease_part,
    report_part,
    take_back,
)
from metering.services.collection.division.packing import (
    Settlement,
    pack_frame,
    pack_pods,
    pack_settlement,
    unpack_frame,
    unpack_pods,
    unpack_settlement,
)
from metering.services.collection.observing import Basis
from metering.services.collection.windows import claim_windows
from tenants.models import Cluster, Project
from tests.support.metering.collecting import DUE, claim
from tests.support.metering.seen import HOUR, WHOLE_H100, moment, node, observation, pod

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PARTS = parts_of(2)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:
    """Make the cluster with its one open window."""


def divided(parts: Sequence[Part] = PARTS, *, frame: bytes | None = b"frame") -> ClaimedWindow:
    """Claim the one window and divide it."""
    claimed = claim()
    divide(claimed, parts=parts, as_of=DUE, frame=frame, at=DUE)
    return claimed


def claimed_again() -> ClaimedWindow:
    """Claim the divided window as the next worker does."""
    (claimed,) = claim_windows(worker="next", limit=1, at=DUE)
    return claimed


def leased(worker: str = "worker-1") -> ClaimedPart:
    """Claim the divided window and lease a part of it."""
    part = lease_part(claimed_again(), worker=worker, policy=DEFAULT_POLICY)
    assert isinstance(part, ClaimedPart)
    return part


def finished(part: ClaimedPart) -> None:
    """Let a part be observed."""
    with transaction.atomic():
        assert holds_part(part.id, fence=part.fence)
        finish_part(part, found=b"found", observed=b"pods", crash_name="observed")
    report_part(part, crash_name="observed")


def states() -> dict[str, str]:
    return dict(WindowPart.objects.values_list("pods", "state"))


def test_a_divided_window_is_open_and_due_as_before() -> None:
    claimed = divided()

    window = MeteringWindow.objects.get()
    assert (window.state, window.not_before, window.attempt) == ("open", DUE, 0)
    assert window.lease_until is None
    division = WindowDivision.objects.get()
    assert (division.window_id, division.as_of, division.not_before) == (claimed.id, DUE, DUE)
    assert set(states().values()) == {"due"}
    assert len(states()) == 3


def test_only_who_holds_the_window_divides_it() -> None:
    claimed = claim()
    MeteringWindow.objects.update(fence=claimed.fence + 1)

    with pytest.raises(ClaimLostError):
        divide(claimed, parts=PARTS, as_of=DUE, frame=None, at=DUE)

    assert not WindowDivision.objects.exists()


def test_the_next_claim_says_that_the_window_is_divided() -> None:
    assert not claim().is_divided
    MeteringWindow.objects.update(state="open", lease_until=None)
    divided()

    assert claimed_again().is_divided


def test_each_claim_leases_another_part() -> None:
    divided()

    parts = [leased(name) for name in ("one", "two", "three")]

    assert sorted(part.pods.text for part in parts) == sorted(part.text for part in PARTS)
    owners = WindowPart.objects.order_by("id").values_list("lease_owner", flat=True)
    assert sorted(owners) == ["one", "three", "two"]


def test_a_window_of_which_all_parts_are_leased_is_due_when_the_first_lease_ends() -> None:
    divided()
    for _ in PARTS:
        leased()

    window = MeteringWindow.objects.get()
    first = min(
        until for until in WindowPart.objects.values_list("lease_until", flat=True) if until
    )
    assert (window.state, window.not_before) == ("open", first)
    assert claim_windows(worker="idle", limit=1, at=DUE) == []


def test_a_window_claimed_while_all_parts_are_leased_is_given_back() -> None:
    divided()
    for _ in PARTS:
        leased()
    MeteringWindow.objects.update(not_before=DUE)

    claimed = claimed_again()

    assert lease_part(claimed, worker="late", policy=DEFAULT_POLICY) is NoPart.AWAY
    assert MeteringWindow.objects.get().state == "open"


def test_a_part_that_is_done_makes_the_window_due_at_once() -> None:
    divided()
    parts = [leased() for _ in PARTS]

    finished(parts[0])

    assert MeteringWindow.objects.get().not_before == DUE
    assert list(states().values()).count("done") == 1


def test_a_window_of_which_all_parts_are_done_stays_claimed() -> None:
    divided()
    for _ in PARTS:
        finished(leased())

    claimed = claimed_again()

    assert lease_part(claimed, worker="last", policy=DEFAULT_POLICY) is NoPart.DONE
    with transaction.atomic():
        assert holds_claim(claimed.id, fence=claimed.fence)


def test_without_a_source_there_is_nothing_to_observe() -> None:
    divided(frame=None)

    assert set(states().values()) == {"done"}
    assert lease_part(claimed_again(), worker="worker-1", policy=DEFAULT_POLICY) is NoPart.DONE


def test_a_part_whose_lease_ended_is_leased_again_and_its_first_worker_refused() -> None:
    divided()
    lost, *_ = [leased() for _ in PARTS]
    WindowPart.objects.filter(pk=lost.id).update(lease_until=LONG_AGO)
    MeteringWindow.objects.update(not_before=DUE)

    again = leased("second")

    assert (again.id, again.fence) == (lost.id, lost.fence + 1)
    with transaction.atomic():
        assert not holds_part(lost.id, fence=lost.fence)
        assert holds_part(again.id, fence=again.fence)


def test_a_lease_that_ended_holds_nothing_even_if_nobody_took_the_part_over() -> None:
    divided()
    part = leased()
    WindowPart.objects.filter(pk=part.id).update(lease_until=LONG_AGO)

    with transaction.atomic():
        assert not holds_part(part.id, fence=part.fence)


def test_a_part_that_was_lost_comes_after_those_that_were_not() -> None:
    divided()
    lost = leased()
    WindowPart.objects.filter(pk=lost.id).update(lease_until=LONG_AGO)

    assert leased().id != lost.id


def test_lost_leases_of_a_part_count_as_those_of_the_window() -> None:
    divided()
    for _ in range(3):
        part = leased()
        WindowPart.objects.exclude(pk=part.id).update(state="done")
        WindowPart.objects.filter(pk=part.id).update(lease_until=LONG_AGO)
        MeteringWindow.objects.update(not_before=DUE)

    assert MeteringWindow.objects.get().attempt == 2
    assert claimed_again().attempt == 4


def test_a_part_that_failed_is_free_and_its_worker_holds_the_window() -> None:
    divided()
    part = leased()

    with transaction.atomic():
        claimed = claim_back(part, policy=DEFAULT_POLICY)
        assert claimed is not None
        assert holds_claim(claimed.id, fence=claimed.fence)

    assert states()[part.pods.text] == "due"
    assert WindowPart.objects.get(pk=part.id).attempt == 0


def test_a_part_that_failed_while_another_claims_the_window_is_free_alone() -> None:
    divided()
    part = leased()
    other = claimed_again()

    with transaction.atomic():
        assert claim_back(part, policy=DEFAULT_POLICY) is None
        assert holds_claim(other.id, fence=other.fence)

    assert states()[part.pods.text] == "due"


def test_a_part_that_another_worker_took_over_fails_nobody() -> None:
    divided()
    part = leased()

    with pytest.raises(ClaimLostError), transaction.atomic():
        claim_back(replace(part, fence=part.fence - 1), policy=DEFAULT_POLICY)

    assert MeteringWindow.objects.get().state == "open"
    assert states()[part.pods.text] == "leased"


def test_a_division_is_taken_back_by_who_holds_the_window_only() -> None:
    divided()
    claimed = claimed_again()

    with pytest.raises(ClaimLostError):
        take_back(replace(claimed, fence=claimed.fence - 1))
    assert WindowDivision.objects.exists()

    take_back(claimed)
    assert not WindowDivision.objects.exists()
    assert not WindowPart.objects.exists()


def test_to_dissolve_what_is_not_divided_changes_nothing() -> None:
    divided()

    dissolve([0])

    assert WindowPart.objects.count() == len(PARTS)


def test_progress_counts_observed_parts_and_then_posted_ones() -> None:
    assert parts_progress(MeteringWindow.objects.get().pk) is None
    claimed = divided()
    finished(leased())

    found = parts_progress(claimed.id)
    assert found is not None
    assert (found.done, found.all, found.is_settled) == (1, 3, False)

    WindowDivision.objects.update(catalogue_version=1)
    settled = parts_progress(claimed.id)
    assert settled is not None
    assert settled.is_settled


def test_the_size_of_a_window_is_that_of_a_metered_hour_before(cluster: Cluster) -> None:
    sizes = {-3600: (900, moment(-100)), -7200: (1_200, moment(-3000)), -10_800: (99_000, None)}
    for seconds, (records, collected_at) in sizes.items():
        MeteringWindow.objects.create(
            cluster=cluster,
            start_at=moment(seconds),
            state="sealed",
            not_before=HOUR,
            record_count=records,
            as_of=HOUR,
            collected_at=collected_at,
            sealed_at=HOUR,
        )

    (claimed,) = claim_windows(worker="worker-1", limit=1, at=DUE)

    assert claimed.former_records == 1_200


def test_without_a_metered_hour_the_size_is_not_known() -> None:
    assert claim().former_records is None


def test_pods_are_kept_with_the_labels_of_their_nodes_once() -> None:
    shared = dict(WHOLE_H100)
    pods = [pod("a", labels=shared), pod("b", labels=shared), pod("c", labels={"x": "y"})]

    found = list(unpack_pods(pack_pods(pods)))

    assert found == pods
    assert found[0].node_labels is found[1].node_labels
    assert len(pack_pods(pods * 200)) < 20 * len(pack_pods(pods))


@pytest.mark.parametrize("parts", [2, 32])
def test_a_lease_takes_one_part_whatever_plan_the_database_chooses(parts: int) -> None:
    divided(parts_of(parts))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_hashjoin = off")
        cursor.execute("SET LOCAL enable_mergejoin = off")
        cursor.execute("SET LOCAL enable_indexscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")

    found = [leased() for _ in range(3 if parts > 2 else 1)]

    assert WindowPart.objects.filter(state="leased").count() == len({one.id for one in found})


def test_steps_of_parts_leave_the_nodes_packed() -> None:
    seen = observation(nodes=(node("node-1"), node("node-2")))
    frame = Frame(seen, b"traces")
    settlement = Settlement(
        observation=seen,
        settled=Settled(),
        scrapes=ScrapeCoverage(()),
        coverage=None,
        watch=WatchCoverage(),
        basis=Basis(scrapes_suffice=True, watch_suffices=False),
        has_claims=False,
    )

    of_frame, of_settlement = pack_frame(frame), pack_settlement(settlement)

    assert unpack_frame(of_frame).observation.nodes == ()
    assert unpack_frame(of_frame).traces == b"traces"
    assert unpack_frame(of_frame, with_nodes=True).observation.nodes == seen.nodes
    for with_nodes, nodes in ((False, ()), (True, seen.nodes)):
        found = unpack_settlement(of_settlement, with_nodes=with_nodes).observation
        assert found is not None
        assert found.nodes == nodes
        assert found.ticks == seen.ticks


def test_a_settlement_without_an_observation_has_no_nodes() -> None:
    settlement = Settlement(
        observation=None,
        settled=Settled(),
        scrapes=ScrapeCoverage(()),
        coverage=None,
        watch=WatchCoverage(),
        basis=Basis(scrapes_suffice=False, watch_suffices=True),
        has_claims=True,
    )

    assert unpack_settlement(pack_settlement(settlement), with_nodes=True) == settlement


@pytest.mark.parametrize("part", [Part(""), Part("a"), Part("[0123]"), PARTS[-1]])
def test_writers_of_parts_that_overlap_wait_for_each_other(part: Part, cluster: Cluster) -> None:
    with transaction.atomic():
        lock_ledger_part(cluster.pk, part=part)
        lock_ledger_part(cluster.pk, part=part)
