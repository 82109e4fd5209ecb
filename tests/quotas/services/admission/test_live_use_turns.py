"""A sweep takes short turns: who is locked, what counts between two of them, what is left."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metering.models import PodAllocation
from quotas.domain.admission.live_use import Bypass, LiveUseSweep
from quotas.models import QuotaLimit, Reservation
from quotas.services.admission import live_use
from tenants.models import AuditEntry, Cluster, NamespaceBinding, Organization
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.cast import Cast
from tests.support.quotas.admitting import (
    LATER,
    ask,
    beat,
    counted,
    demand,
    drifted,
    end,
    looks_differ,
    see,
    share,
    start,
    state,
    sweep,
    take,
    turns,
)
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

CLAIM = "claim/gpu.nvidia.com"


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", is_watched=True, admission_mode="enforce")
    bind(cluster, "llm", cast.llm)
    bind(cluster, "virus", cast.virus)
    return cluster


@pytest.fixture
def turn_of(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 1)
    return monkeypatch


def locked(organization: Organization) -> bool:
    """Whether this transaction keeps an organization from admitting."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'"
            " AND pid = pg_backend_pid() AND mode = 'ExclusiveLock'"
            " AND (classid::bigint << 32) | objid::bigint = quotas_lock_key(%s))",
            [organization.pk],
        )
        return bool(cursor.fetchone()[0])


def statements(at_least: int) -> int:
    """Sweep, and return how many statements that took."""
    with CaptureQueriesContext(connection) as reported:
        assert sweep().touched >= at_least
    return len(reported)


def test_fifty_tenants_with_one_change_take_as_many_statements_as_one_with_fifty(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    Cluster.objects.update(admission_mode="off")
    for number in range(50):
        start(cluster, f"pod-{number}")
    one = statements(at_least=50)
    for number in range(50):
        organization = make_organization(f"tenant-{number}")
        make_limit(organization, units=8)
        bind(cluster, f"tenant-{number}", make_project(organization))
        start(cluster, f"other-{number}", namespace=f"tenant-{number}")
    fifty = statements(at_least=50)

    assert one == fifty == 4
    assert counted(limit) == (50, 0, 0, 0)
    assert drifted() == []


@pytest.mark.usefixtures("limit")
def test_a_sweep_takes_as_many_turns_as_its_changes_need(
    cluster: Cluster, turn_of: pytest.MonkeyPatch
) -> None:
    Cluster.objects.update(admission_mode="off")
    turn_of.setattr(live_use, "KEYS_PER_TURN", 4)
    idle = statements(at_least=0)
    for number in range(10):
        start(cluster, f"pod-{number}")

    assert (idle, statements(at_least=10)) == (1, 1 + 3 * 3)


def test_a_turn_locks_its_own_organizations_only(cast: Cast, cluster: Cluster) -> None:
    start(cluster, "pod-1")
    start(cluster, "pod-2", namespace="virus")
    first, second = turns(1)
    nobody = locked(cast.acme), locked(cast.umbrella)

    with transaction.atomic():
        take(first)
        one = {locked(cast.acme), locked(cast.umbrella)}
        take(second)
        both = {locked(cast.acme), locked(cast.umbrella)}

    assert (nobody, one, both) == ((False, False), {False, True}, {True})


def test_a_namespace_that_moved_locks_whose_it_was_and_whose_it_is(
    cast: Cast, cluster: Cluster
) -> None:
    acme, umbrella = make_limit(cast.acme), make_limit(cast.umbrella)
    start(cluster)
    sweep(AT)
    NamespaceBinding.objects.filter(namespace="llm").update(project=cast.virus)
    (turn,) = turns(1)

    assert take(turn) == LiveUseSweep(changed=1)
    assert locked(cast.acme)
    assert locked(cast.umbrella)
    assert (counted(acme), counted(umbrella)) == ((0, 0, 0, 0), (1, 0, 0, 0))


def test_whose_organization_comes_up_only_under_the_locks_waits_for_the_next_sweep(
    cast: Cast, cluster: Cluster
) -> None:
    acme, umbrella = make_limit(cast.acme), make_limit(cast.umbrella)
    start(cluster)
    (turn,) = turns(1)
    NamespaceBinding.objects.filter(namespace="llm").update(project=cast.virus)

    left = take(turn), Reservation.objects.count(), locked(cast.umbrella)
    swept = sweep()

    assert left == (LiveUseSweep(), 0, False)
    assert swept.found == 1
    assert (counted(acme), counted(umbrella)) == ((0, 0, 0, 0), (1, 0, 0, 0))


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("what", ["ended", "sized", "seen"])
def test_a_turn_decides_by_what_is_so_under_the_locks(cluster: Cluster, what: str) -> None:
    ask(cluster, uid="pod-2")
    beat(cluster)
    allocation = start(cluster, size="", price_group="", catalogue_version=None)
    found, expired = turns(1)
    if what == "ended":
        end(allocation)
    elif what == "sized":
        PodAllocation.objects.update(size="large", price_group="H100/whole", catalogue_version=1)
    else:
        see(cluster, "pod-2")

    took = take(found), take(expired)

    assert {
        "ended": (LiveUseSweep(), LiveUseSweep(released=1)),
        "sized": (
            LiveUseSweep(found=1, bypasses=(Bypass("hopper", "llm", "large", 1, 1),)),
            LiveUseSweep(released=1),
        ),
        "seen": (
            LiveUseSweep(found=1, bypasses=(Bypass("hopper", "llm", "", 1, 1),)),
            LiveUseSweep(changed=1),
        ),
    }[what] == took
    assert drifted() == []


def test_a_turn_twice_is_a_turn_once(cluster: Cluster, limit: QuotaLimit) -> None:
    start(cluster)
    (turn,) = turns(1)

    assert (take(turn).touched, take(turn).touched) == (1, 0)
    assert counted(limit) == (1, 0, 0, 0)


def hand_over(cluster: Cluster, claim: str = "claim-1", *, pods: int = 1) -> PodAllocation:
    """Let pods in for a claim that is then bound."""
    for number in range(pods):
        uid = f"pod-{number} of {claim}"
        assert ask(cluster, "llm", uid, demand(resource=CLAIM)).is_allowed
        share(cluster, claim, uid)
    return start(cluster, claim, resource=CLAIM)


def test_a_claim_is_never_counted_by_neither_its_pod_nor_itself(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    hand_over(cluster)
    adding, releasing = turns(1)

    too_early = take(releasing), counted(limit)
    added = take(adding), counted(limit)
    released = take(releasing), counted(limit)

    assert too_early == (LiveUseSweep(changed=1), (0, 1, 0, 0))
    assert added == (LiveUseSweep(found=1), (1, 1, 0, 0))
    assert released == (LiveUseSweep(released=1), (1, 0, 0, 0))
    assert sweep() == LiveUseSweep()


def test_a_pod_keeps_its_claim_until_somebody_knows_the_claims_size(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster, "llm", "pod-1", demand(2, resource=CLAIM))
    share(cluster, "claim-1", "pod-1")
    start(
        cluster,
        "claim-1",
        resource=CLAIM,
        units=2,
        size="",
        price_group="",
        catalogue_version=None,
    )

    unsized = sweep(), counted(limit), sweep()
    PodAllocation.objects.update(size="large", price_group="H100/whole", catalogue_version=1)
    swept = sweep()

    assert unsized == (LiveUseSweep(found=1, changed=1), (0, 2, 0, 0), LiveUseSweep())
    assert swept == LiveUseSweep(changed=1, released=1)
    assert (state("pod-1"), state("claim-1")) == (("released", "handed_over"), ("held", ""))
    assert counted(limit) == (2, 0, 0, 0)
    assert not AuditEntry.objects.exists()


@pytest.mark.usefixtures("limit")
def test_a_sweep_of_many_turns_shows_all_it_did_and_each_bypass_once(
    cluster: Cluster, turn_of: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        start(cluster, f"pod-{number}", units=2)
    start(cluster, "other", namespace="virus")

    swept = sweep()
    turn_of.undo()

    assert swept == LiveUseSweep(
        found=4,
        bypasses=(Bypass("hopper", "llm", "large", 3, 6), Bypass("hopper", "virus", "large", 1, 1)),
    )
    assert sum(entry.facts["pods"] for entry in AuditEntry.objects.all()) == 4
    assert set(AuditEntry.objects.values_list("object_id", flat=True)) == {LATER.isoformat()}
    assert sweep() == LiveUseSweep()


@given(
    claims=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    ended=st.sets(st.integers(0, 3)),
    keys_max=st.integers(1, 5),
)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_between_two_turns_every_claim_counts_at_least_once(
    cluster: Cluster, claims: list[int], ended: set[int], keys_max: int
) -> None:
    with transaction.atomic():
        limit = make_limit(Organization.objects.get(slug="acme"), units=100)
        before = [start(cluster, f"old-{number}") for number in ended]
        sweep(AT)
        for allocation in before:
            end(allocation)
        for number, pods in enumerate(claims):
            hand_over(cluster, f"claim-{number}", pods=pods)
        assert looks_differ() == []
        least, used = len(claims), []
        for turn in turns(keys_max):
            take(turn)
            used.append(sum(counted(limit)))
            assert drifted() == []
        last = counted(limit)
        transaction.set_rollback(True)

    assert min(used) >= least
    assert max(used) <= least + sum(claims) + len(ended)
    assert last == (least, 0, 0, 0)
