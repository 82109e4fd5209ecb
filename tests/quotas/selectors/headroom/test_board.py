"""The quota board: everything about every limit, as a tree down to the users."""

from datetime import timedelta

from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteThresholds
from quotas.domain.enforcement.caps import ClusterConstraints, ConstrainedCluster
from quotas.domain.headroom.headroom import ExhaustionOutcome
from quotas.models import QuotaLimit
from quotas.selectors.headroom.board import OrganizationUsage, ProjectUsage, quota_board
from tenants.models import Cluster, Project
from tests.support.builders import AT, MONTH_START, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit
from tests.support.quotas.fair_use import DAY, HOUR, give, refuse, reserve, suspend, use_daily
from tests.support.quotas.fair_use_caps import make_wall
from tests.support.shared_rows import shared_rows

BURST = ["gpu-ledger-burst"]


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    bind(cluster, "virus", cast.virus)
    return cluster


def board(cast: Cast, *, has_forecast: bool = False) -> tuple[OrganizationUsage, ...]:
    return quota_board(
        [cast.umbrella, cast.acme],
        projects=Project.objects.all(),
        at=AT,
        burst_classes=BURST,
        thresholds=WasteThresholds(),
        has_forecast=has_forecast,
    )


def llm(cast: Cast, *, has_forecast: bool = False) -> ProjectUsage:
    return board(cast, has_forecast=has_forecast)[1].projects[0]


def test_every_size_of_every_project_stands_in_order(hopper: Cluster, cast: Cast) -> None:
    reserve(hopper, cast.llm, units=2, username="carol")
    reserve(hopper, cast.llm, units=1, username="bob", size="small")
    make_limit(cast.acme, cast.llm, units=8)

    umbrella, acme = board(cast)

    assert (umbrella.slug, [p.slug for p in umbrella.projects]) == ("umbrella", ["virus"])
    assert [p.slug for p in acme.projects] == ["llm", "vision"]
    first, vision = acme.projects
    assert [line.size for line in first.sizes] == list(GPUSize)
    assert [
        (line.headroom.used_units, line.headroom.limit_units, line.limit_state)
        for line in first.sizes
    ] == [(1, None, "unset"), (0, None, "unset"), (2, 8, "set")]
    assert [(user.username, len(user.lines)) for user in first.users] == [("bob", 1), ("carol", 1)]
    assert (vision.users, len(vision.sizes)) == ((), 3)


def test_units_let_in_and_units_bound_stand_apart(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=8)
    reserve(hopper, cast.llm, units=2)
    reserve(hopper, cast.llm, units=3, state="reserved")

    headroom = llm(cast).sizes[2].headroom

    assert (headroom.used_units, headroom.reserved_units, headroom.free_units) == (2, 3, 3)


def test_where_nobody_admits_the_open_allocations_are_reported(cast: Cast) -> None:
    bind(make_cluster("plain"), "llm", cast.llm)
    hold(Cluster.objects.get(), "llm", units=4, owner="carol")

    found = llm(cast)

    assert found.sizes[2].headroom.used_units == 4
    assert found.users[0].lines[0].headroom.used_units == 4


def test_preemptible_pods_count_against_burst_only(hopper: Cluster, cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    QuotaLimit.objects.filter(pk=limit.pk).update(burst_units=4)
    reserve(hopper, cast.llm, units=3, is_burst=True)

    headroom = llm(cast).sizes[2].headroom

    assert (headroom.used_units, headroom.burst_used_units, headroom.burst_limit_units) == (0, 3, 4)


def test_grants_in_force_are_reported_beside_the_limit(hopper: Cluster, cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    give(limit, 4, end_at=AT + 3 * DAY)
    give(limit, -1, end_at=AT + DAY)
    give(limit, 2, begin_at=AT + DAY, end_at=AT + 2 * DAY)
    give(limit, 9, begin_at=AT - 2 * DAY, end_at=AT)

    line = llm(cast).sizes[2]

    assert hopper.slug == "hopper"
    assert (line.set_units, line.headroom.limit_units) == (8, 11)
    assert [(grant.units, grant.end_at) for grant in line.grants] == [
        (-1, AT + DAY),
        (4, AT + 3 * DAY),
    ]


def test_unlimited_unset_and_none_are_three_things(hopper: Cluster, cast: Cast) -> None:
    unlimited = make_limit(cast.acme, cast.llm, size="small")
    QuotaLimit.objects.filter(pk=unlimited.pk).update(limit_units=None)
    make_limit(cast.acme, cast.llm, size="medium", units=0)

    lines = llm(cast).sizes

    assert hopper.slug == "hopper"
    assert [(line.limit_state, line.headroom.limit_units) for line in lines] == [
        ("unlimited", None),
        ("set", 0),
        ("unset", None),
    ]


def test_limits_of_one_model_or_cluster_stand_by_themselves(hopper: Cluster, cast: Cast) -> None:
    other = make_cluster("ampere", admission_mode="warn", is_watched=True)
    of_model = make_limit(cast.acme, cast.llm, units=2)
    QuotaLimit.objects.filter(pk=of_model.pk).update(model_group="H100")
    of_cluster = make_limit(cast.acme, cast.llm, units=3)
    QuotaLimit.objects.filter(pk=of_cluster.pk).update(cluster=other)
    reserve(hopper, cast.llm, units=1)
    reserve(other, cast.llm, units=2, model_groups=["A100"])

    found = llm(cast)

    assert [
        (line.model_group, line.cluster, line.headroom.used_units, line.headroom.limit_units)
        for line in found.more_specific_sizes
    ] == [("", "ampere", 2, 3), ("H100", "", 1, 2)]
    assert found.sizes[2].headroom.used_units == 3
    assert found.lines == (*found.sizes, *found.more_specific_sizes)


def test_anyone_who_was_refused_for_room_waits_once_and_who_gave_up_does_not(
    hopper: Cluster, cast: Cast
) -> None:
    refuse(hopper, cast.llm, units=2, workload="Job/a", username="carol")
    refuse(hopper, cast.llm, units=2, workload="Job/a", username="carol", code="suspended")
    refuse(hopper, cast.llm, units=1, workload="Job/b")
    refuse(hopper, cast.llm, units=9, workload="Job/old", last_at=AT - DAY)
    refuse(hopper, cast.llm, units=9, workload="Job/gone", last_at=AT - 2 * HOUR)
    refuse(hopper, cast.llm, units=1, workload="Job/held", code="suspended")

    _, acme = board(cast)
    found = acme.projects[0]

    assert (acme.sizes[2].refused, found.sizes[2].refused, found.sizes[0].refused) == (2, 2, 0)
    assert sorted(one.workload for one in found.refusals) == [
        "Job/a",
        "Job/a",
        "Job/b",
        "Job/gone",
        "Job/held",
    ]


def test_a_suspended_organization_suspends_its_projects(cast: Cast) -> None:
    suspend(cast.acme)
    suspend(cast.umbrella, cast.virus)

    umbrella, acme = board(cast)

    assert (acme.suspension, acme.projects[0].suspension) == ("Arrears.", "Arrears.")
    assert (umbrella.suspension, umbrella.projects[0].suspension) == (None, "Arrears.")


def test_quota_nobody_uses_is_reported_where_it_is_kept(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=8)
    QuotaLimit.objects.update(changed_at=MONTH_START)

    assert hopper.slug == "hopper"
    assert llm(cast).sizes[2].hoarded_units == 8
    assert board(cast)[1].sizes[2].hoarded_units == 0


def test_the_forecast_stands_at_the_projects_limit(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=20)
    make_limit(cast.acme, cast.vision, units=20)
    use_daily(hopper, {cast.llm: list(range(1, 15)), cast.vision: [3]})

    _, acme = board(cast, has_forecast=True)
    growing, new = (project.sizes[2].exhaustion for project in acme.projects)

    assert growing is not None
    assert new is not None
    assert (growing.outcome, growing.on) == (
        ExhaustionOutcome.EXPECTED,
        AT.date() + timedelta(days=5),
    )
    assert new.outcome is ExhaustionOutcome.TOO_LITTLE_HISTORY
    assert llm(cast).sizes[2].exhaustion is None


def test_days_without_use_count_as_none_from_the_first_use_on(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    use_daily(hopper, {cast.llm: [5, *[0] * 13]})

    exhaustion = llm(cast, has_forecast=True).sizes[2].exhaustion

    assert exhaustion is not None
    assert exhaustion.outcome is ExhaustionOutcome.NOT_WITHIN_HORIZON


def test_the_statements_stay_the_same_however_much_is_shown(
    hopper: Cluster, cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(6):
        limit = make_limit(cast.acme, size="small") if number == 0 else None
        reserve(hopper, cast.llm, username=f"user-{number}")
        refuse(hopper, cast.virus, username=f"user-{number}")
        if limit is not None:
            give(limit, 1, begin_at=AT - HOUR)
    make_limit(cast.acme, cast.llm)
    QuotaLimit.objects.update(changed_at=MONTH_START)

    with django_assert_num_queries(11):
        board(cast)
    with django_assert_num_queries(12):
        board(cast, has_forecast=True)


def test_a_cluster_whose_quota_is_full_is_reported_beside_what_the_limit_leaves(cast: Cast) -> None:
    plain, other = make_cluster("plain"), make_cluster("other")
    for cluster in (plain, other):
        bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=16)
    make_limit(cast.acme, cast.llm, units=12, cluster=plain)
    make_limit(cast.acme, cast.llm, units=12, cluster=other)
    make_limit(cast.acme, cast.llm, cast.carol, units=4)
    make_wall(plain, cast.llm, hard=12, used=16)
    make_wall(other, cast.llm, hard=12, used=11)

    found = llm(cast)

    assert (found.sizes[2].headroom.free_units, found.sizes[2].cluster_constraints.full) == (
        16,
        ("plain",),
    )
    assert {line.cluster: line.cluster_constraints.full for line in found.more_specific_sizes} == {
        "other": (),
        "plain": ("plain",),
    }
    assert found.users[0].lines[0].cluster_constraints == ClusterConstraints()
    assert board(cast)[1].sizes[2].cluster_constraints == ClusterConstraints()


def test_what_was_granted_nothing_in_the_cluster_is_not_full(cast: Cast) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=16)
    make_wall(plain, cast.llm, hard=0, used=0)

    assert llm(cast).sizes[2].cluster_constraints == ClusterConstraints(
        constrained=(ConstrainedCluster("plain", 0),)
    )


def test_a_cluster_that_leaves_less_than_the_limit_is_reported_with_how_much(cast: Cast) -> None:
    plain, other = make_cluster("plain"), make_cluster("other")
    for cluster in (plain, other):
        bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=16)
    make_limit(cast.acme, cast.llm, units=8, cluster=other)
    make_wall(plain, cast.llm, hard=12, used=9)
    make_wall(other, cast.llm, hard=8, used=0)

    found = llm(cast)

    assert found.sizes[2].cluster_constraints.constrained == (
        ConstrainedCluster("other", 8),
        ConstrainedCluster("plain", 3),
    )
    assert found.more_specific_sizes[0].cluster_constraints == ClusterConstraints()
    assert found.sizes[0].cluster_constraints == ClusterConstraints()


def test_a_quota_that_was_not_read_for_long_is_neither_full_nor_open(cast: Cast) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=16)
    make_wall(plain, cast.llm, hard=12, used=16, read_at=AT - HOUR)

    assert llm(cast).sizes[2].cluster_constraints == ClusterConstraints(stale=("plain",))


def test_nothing_is_a_board_of_nothing(cast: Cast) -> None:
    found = quota_board(
        [],
        projects=Project.objects.all(),
        at=AT,
        burst_classes=BURST,
        thresholds=WasteThresholds(),
    )

    assert found == ()
    assert cast.acme.slug == "acme"
