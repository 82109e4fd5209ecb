"""Headroom in clusters that do not ask admission: the quotas there bound what is promised."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.caps import NamespaceCap
from quotas.domain.enforcement.resource_quota import OPEN_UNITS
from quotas.domain.headroom.start import StartCode
from quotas.models import EnforcementTarget, QuotaCounter, QuotaLimit
from quotas.selectors.enforcement.namespaces import caps_of_projects
from quotas.selectors.headroom.headroom import (
    StartAnswer,
    StartQuestion,
    answer_start,
    clusters_of_project,
)
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit, see_size
from tests.support.quotas.fair_use import give, suspend
from tests.support.quotas.fair_use_caps import GPU, make_wall
from tests.support.shared_rows import shared_rows

BURST = ["gpu-ledger-burst"]
HOUR_SECONDS = 3600


@shared_rows
def hopper(cast: Cast) -> Cluster:
    """Return a cluster that asks nobody, in which ten of sixteen Large units run."""
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    see_size(cluster, "nvidia.com/gpu", "large")
    make_limit(cast.acme, cast.llm, units=16)
    hold(cluster, "llm", units=10)
    return cluster


def ask(cast: Cast, *, units: int = 2, **fields: Any) -> StartAnswer:  # noqa: ANN401 - Of several types.
    question = StartQuestion(project=cast.llm, size=GPUSize.LARGE, units=units, **fields)
    clusters = clusters_of_project(question, at=AT)
    return answer_start(question, clusters=clusters, at=AT, burst_classes=BURST)


@pytest.mark.parametrize("named", ["", "hopper"])
def test_a_quota_that_pending_pods_fill_is_reported_as_full(
    hopper: Cluster, cast: Cast, named: str
) -> None:
    make_wall(hopper, cast.llm, hard=12, used=16)

    answer = ask(cast, cluster=named)

    assert (answer.verdict.code, answer.verdict.free_units) == (StartCode.CLUSTER_QUOTA_FULL, 0)
    assert answer.verdict.full is not None
    assert answer.verdict.full.waiting_units == 6
    assert answer.verdict.full.quota_caps == (NamespaceCap("llm", 0, 0, 12, 16),)
    assert (answer.when, answer.is_uncertain) == (None, False)


def test_no_more_is_free_than_the_quota_leaves(hopper: Cluster, cast: Cast) -> None:
    make_wall(hopper, cast.llm, hard=12, used=10)

    assert (ask(cast).verdict.fits, ask(cast).verdict.free_units) == (True, 2)
    assert not ask(cast, units=3).verdict.fits


def test_a_namespace_with_room_is_enough_and_so_is_one_never_read(
    hopper: Cluster, cast: Cast
) -> None:
    make_wall(hopper, cast.llm, hard=12, used=12)
    bind(hopper, "llm-2", cast.llm)
    assert ask(cast).verdict.free_units == 6

    make_wall(hopper, cast.llm, hard=4, used=1, namespace="llm-2")
    assert (ask(cast).verdict.fits, ask(cast).verdict.free_units) == (True, 3)


def test_a_quota_never_read_bounds_nothing(hopper: Cluster, cast: Cast) -> None:
    make_wall(hopper, cast.llm, hard=12, used=16, is_read=False)

    assert ask(cast).verdict.free_units == 6


@pytest.mark.parametrize(("minutes", "free_units"), [(25, 0), (26, 6)])
def test_a_reading_bounds_for_25_minutes(
    hopper: Cluster, cast: Cast, minutes: int, free_units: int
) -> None:
    read_at = AT - timedelta(minutes=minutes)
    make_wall(hopper, cast.llm, hard=12, used=16, read_at=read_at)

    answer = ask(cast)

    assert answer.verdict.free_units == free_units
    unread = NamespaceCap("llm", None, None, unread_since=read_at)
    assert answer.unread == (() if minutes == 25 else (unread,))


def test_an_old_reading_without_a_number_is_nothing_to_tell(hopper: Cluster, cast: Cast) -> None:
    make_wall(hopper, cast.llm, hard=OPEN_UNITS, used=16, read_at=AT - timedelta(hours=9))

    assert (ask(cast).verdict.free_units, ask(cast).unread) == (6, ())


def test_who_may_not_start_anyhow_is_reported_nothing_of_old_readings(
    hopper: Cluster, cast: Cast
) -> None:
    make_wall(hopper, cast.llm, hard=12, used=16, read_at=AT - timedelta(hours=9))
    suspend(cast.acme)

    assert (ask(cast).verdict.code, ask(cast).unread) == (StartCode.SUSPENDED, ())


def test_a_cluster_whose_quota_was_read_comes_before_one_nobody_reads(
    hopper: Cluster, cast: Cast
) -> None:
    make_wall(hopper, cast.llm, hard=12, used=16, read_at=AT - timedelta(hours=9))
    ampere = make_cluster("ampere")
    bind(ampere, "llm", cast.llm)
    see_size(ampere, "nvidia.com/gpu", "large")
    make_wall(ampere, cast.llm, hard=12, used=9)

    assert (ask(cast).cluster, ask(cast).verdict.free_units) == ("ampere", 3)
    assert (ask(cast, units=4).cluster, ask(cast, units=4).verdict.free_units) == ("hopper", 6)


def test_when_is_reported_of_the_cluster_in_which_no_quota_stands_in_the_way(
    hopper: Cluster, cast: Cast
) -> None:
    give(QuotaLimit.objects.get(), 4, begin_at=AT + timedelta(hours=5), end_at=None)
    make_wall(hopper, cast.llm, hard=12, used=12)
    both = ask(cast, units=8)
    bind(make_cluster("ampere"), "llm", cast.llm)

    other = ask(cast, units=8)

    assert (both.verdict.code, both.when) == (StartCode.LIMIT_REACHED, None)
    assert both.verdict.full is not None
    assert (other.cluster, other.verdict.full) == ("ampere", None)
    assert other.when is not None
    assert other.when.median_at == AT + timedelta(hours=5)


def test_next_month_does_not_empty_a_full_quota(hopper: Cluster, cast: Cast) -> None:
    limit = QuotaLimit.objects.get()
    QuotaLimit.objects.update(monthly_unit_hours=1)
    QuotaCounter.objects.create(
        limit=limit, month=AT.date().replace(day=1), month_unit_seconds=HOUR_SECONDS
    )
    open_answer = ask(cast)
    make_wall(hopper, cast.llm, hard=12, used=12)

    answer = ask(cast)

    assert open_answer.when is not None
    assert (answer.verdict.code, answer.when) == (StartCode.ALLOWANCE_USED, None)


def test_where_admission_is_asked_reservations_know_what_waits(hopper: Cluster, cast: Cast) -> None:
    make_wall(hopper, cast.llm, hard=12, used=16)
    Cluster.objects.update(admission_mode="warn", is_watched=True)

    assert ask(cast).verdict.free_units == 16


def test_another_cluster_with_room_is_meant_unless_the_full_one_is_named(
    hopper: Cluster, cast: Cast
) -> None:
    make_wall(hopper, cast.llm, hard=12, used=12)
    ampere = make_cluster("ampere")
    bind(ampere, "llm", cast.llm)

    assert (ask(cast).cluster, ask(cast).verdict.fits) == ("ampere", True)
    assert not ask(cast, cluster="hopper").verdict.fits


def test_room_under_a_name_nobody_has_seen_yet_is_doubtful(cast: Cast) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=16)
    make_wall(plain, cast.llm, hard=12, used=9)

    answer = ask(cast)

    assert (answer.verdict.fits, answer.verdict.free_units) == (True, 3)
    assert answer.is_uncertain
    assert (ask(cast, units=4).verdict.fits, ask(cast, units=4).is_uncertain) == (False, False)


def test_preemptible_pods_have_a_wall_of_their_own(hopper: Cluster, cast: Cast) -> None:
    make_wall(hopper, cast.llm, hard=12, used=14)
    EnforcementTarget.objects.update(live_burst={GPU: 4}, live_burst_used={GPU: 3})
    QuotaLimit.objects.update(burst_units=4)

    assert ask(cast, units=1).verdict.free_units == 1
    assert ask(cast, units=1, is_burst=True).verdict.free_units == 1
    assert ask(cast, is_burst=True).verdict.code is StartCode.CLUSTER_QUOTA_FULL


def test_walls_cost_three_statements_however_many_there_are(
    hopper: Cluster, cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    projects = [cast.llm.pk, cast.vision.pk]
    with django_assert_num_queries(1):
        assert caps_of_projects(projects, at=AT) == {}
    for number in range(4):
        bind(hopper, f"vision-{number}", cast.vision)
        make_wall(hopper, cast.vision, hard=2, used=1, namespace=f"vision-{number}")

    with django_assert_num_queries(3):
        found = caps_of_projects(projects, at=AT)

    assert [len(found[project, hopper.pk]) for project in projects] == [1, 4]
