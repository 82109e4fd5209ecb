"""What binds at a time: limits with their grants, and who may start nothing."""

from datetime import timedelta

from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize
from quotas.models import QuotaSuspension
from quotas.selectors.limits.in_force import limits_in_force
from quotas.selectors.limits.units_now import limit_use
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_grant, make_limit

HOUR = timedelta(hours=1)


def test_grants_count_from_their_begin_up_to_their_end(cast: Cast) -> None:
    limit = make_limit(cast.acme, units=8)
    make_grant(limit, 4, AT, AT + 2 * HOUR)
    make_grant(limit, -3, AT + HOUR)

    reported = [
        limits_in_force(at=AT + hours * HOUR)[0].nominal_units for hours in (-1, 0, 1, 2, 9)
    ]

    assert reported == [8, 12, 9, 5, 5]


def test_unlimited_stays_so_and_nothing_is_below_zero(cast: Cast) -> None:
    make_grant(make_limit(cast.acme, units=None), -3)
    make_grant(make_limit(cast.acme, cast.llm, units=2), -3)

    assert [limit.nominal_units for limit in limits_in_force(at=AT)] == [None, 0]


def test_every_column_that_binds_is_reported(cast: Cast) -> None:
    hopper = make_cluster()
    made = make_limit(
        cast.acme,
        cast.llm,
        cast.carol,
        units=8,
        model_group="H100",
        cluster=hopper,
        burst_units=2,
        overcommit_percent=150,
        monthly_unit_hours=700,
    )

    (limit,) = limits_in_force(at=AT)

    assert (limit.limit_id, limit.scope, limit.size) == (made.pk, "user", GPUSize.LARGE)
    assert (limit.organization_id, limit.project_id) == (cast.acme.pk, cast.llm.pk)
    assert (limit.user_id, limit.username) == (cast.carol.pk, "carol")
    assert (limit.model_group, limit.cluster_id) == ("H100", hopper.pk)
    assert (limit.burst_units, limit.overcommit_percent) == (2, 150)
    assert (limit.monthly_unit_hours, limit.is_suspended) == (700, False)


def test_organizations_come_first_and_only_those_asked_for(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_limit(cast.acme, cast.llm, cast.carol)
    make_limit(cast.acme, cast.llm)
    make_limit(cast.acme, size="small")
    make_limit(cast.acme)
    make_limit(cast.umbrella)

    with django_assert_num_queries(1):
        own = limits_in_force(at=AT, organization_ids=[cast.acme.pk], size=GPUSize.LARGE)

    assert [limit.scope for limit in own] == ["organization", "project", "user"]
    assert {limit.organization_id for limit in own} == {cast.acme.pk}
    assert len(limits_in_force(at=AT)) == 5


def test_a_suspension_counts_while_it_lasts(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm)
    QuotaSuspension.objects.create(
        organization=cast.acme, reason="Arrears.", begin_at=AT, end_at=AT + HOUR
    )

    reported = [limits_in_force(at=AT + hours * HOUR)[0].is_suspended for hours in (-1, 0, 1)]

    assert reported == [False, True, False]


def test_what_is_taken_of_shown_limits_costs_three_statements(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    bind(make_cluster(), "llm", cast.llm)
    cluster = cast.llm.bindings.get().cluster
    hold(cluster, "llm", units=3, owner="carol")
    limits = [
        make_limit(cast.acme, units=9),
        make_limit(cast.acme, cast.llm, units=2),
        make_limit(cast.acme, cast.llm, cast.carol, units=None),
    ]
    make_limit(cast.acme, cast.vision)

    with django_assert_num_queries(3):
        use = limit_use(limits, at=AT, burst_classes=())

    reported = [
        (use[one.pk].headroom.used_units, use[one.pk].headroom.free_units) for one in limits
    ]
    assert reported == [(3, 6), (3, 0), (3, None)]
    assert set(use) == {limit.pk for limit in limits}
    assert limit_use([], at=AT, burst_classes=()) == {}
