"""May a project start so many units now, and if not, when."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.offers import ClusterHeadroom
from quotas.domain.headroom.start import StartCode
from quotas.models import QuotaCounter, QuotaLimit
from quotas.selectors.headroom.headroom import (
    StartAnswer,
    StartQuestion,
    answer_start,
    clusters_of_project,
)
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit, see_size
from tests.support.quotas.fair_use import DAY, HOUR, give, has_run, reserve, run, suspend
from tests.support.shared_rows import shared_rows

BURST = ["gpu-ledger-burst"]


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    return cluster


def ask(cast: Cast, *, units: int = 2, **fields: Any) -> StartAnswer:  # noqa: ANN401 - Of several types.
    question = StartQuestion(project=cast.llm, size=GPUSize.LARGE, units=units, **fields)
    clusters = clusters_of_project(question, at=AT)
    return answer_start(question, clusters=clusters, at=AT, burst_classes=BURST)


def test_every_limit_is_reported_and_the_first_without_room_is_named(
    hopper: Cluster, cast: Cast
) -> None:
    make_limit(cast.acme, units=20)
    make_limit(cast.acme, cast.llm, units=8)
    make_limit(cast.acme, cast.llm, cast.carol, units=5)
    make_limit(cast.acme, cast.llm, cast.bob, units=1)
    reserve(hopper, cast.llm, units=4, username="carol")
    reserve(hopper, cast.llm, units=1, username="carol", state="reserved")

    answer = ask(cast, username="carol")

    assert [
        (headroom.scope, headroom.holder, headroom.free_units) for headroom in answer.limits
    ] == [
        ("organization", "acme", 15),
        ("project", "llm", 3),
        ("user", "carol", 0),
    ]
    assert (answer.verdict.code, answer.verdict.free_units) == (StartCode.LIMIT_REACHED, 0)
    assert answer.verdict.blocker == answer.limits[2]
    assert answer.cluster == "hopper"
    assert ask(cast).verdict.fits


def test_without_any_limit_it_is_let_in_and_with_one_of_another_size_not(
    hopper: Cluster, cast: Cast
) -> None:
    assert hopper.slug == "hopper"
    assert ask(cast).verdict.code is StartCode.FITS_UNGOVERNED
    make_limit(cast.acme, cast.llm, size="small")
    assert ask(cast).verdict.code is StartCode.NOTHING_GRANTED


@pytest.mark.parametrize("has_limit", [True, False])
def test_who_is_suspended_starts_nothing(hopper: Cluster, cast: Cast, *, has_limit: bool) -> None:
    if has_limit:
        make_limit(cast.acme, cast.llm)
    suspend(cast.acme, cast.llm)

    answer = ask(cast)

    assert hopper.slug == "hopper"
    assert (answer.verdict.code, answer.when) == (StartCode.SUSPENDED, None)


def test_a_preemptible_pod_asks_burst_limits_only(hopper: Cluster, cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=2)
    QuotaLimit.objects.filter(pk=limit.pk).update(burst_units=3)
    reserve(hopper, cast.llm, units=2)
    reserve(hopper, cast.llm, units=1, is_burst=True)

    assert not ask(cast).verdict.fits
    assert ask(cast, is_burst=True).verdict.free_units == 2


def test_of_several_clusters_the_one_with_room_is_meant(hopper: Cluster, cast: Cast) -> None:
    ampere = make_cluster("ampere", admission_mode="enforce", is_watched=True)
    bind(ampere, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=9)
    bound = make_limit(cast.acme, units=1)
    QuotaLimit.objects.filter(pk=bound.pk).update(cluster=ampere)

    assert ask(cast).cluster == hopper.slug
    assert ask(cast, cluster="ampere").verdict.blocker == ask(cast, cluster="ampere").limits[0]
    assert ask(cast, cluster="ampere").limits[0].cluster == "ampere"
    assert ask(cast, units=1, cluster="ampere").verdict.fits


def test_a_pod_that_may_land_on_any_model_needs_room_for_each(hopper: Cluster, cast: Cast) -> None:
    narrow = make_limit(cast.acme, cast.llm, units=1)
    QuotaLimit.objects.filter(pk=narrow.pk).update(model_group="H100")
    make_limit(cast.acme, cast.llm, units=9)

    assert hopper.slug == "hopper"
    assert not ask(cast).verdict.fits
    assert not ask(cast, model_group="H100").verdict.fits
    assert ask(cast, model_group="A100").verdict.fits


def test_a_used_up_allowance_is_over_with_the_month(hopper: Cluster, cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=9)
    QuotaLimit.objects.filter(pk=limit.pk).update(monthly_unit_hours=10)
    counter, _ = QuotaCounter.objects.get_or_create(limit=limit)
    counter.month, counter.month_unit_seconds = AT.date().replace(day=1), 36_000
    counter.save()

    answer = ask(cast)

    assert hopper.slug == "hopper"
    assert answer.verdict.code is StartCode.ALLOWANCE_USED
    assert answer.when is not None
    assert answer.when.median_at == AT.replace(month=12, day=1, hour=0)
    assert answer.when.basis == "known_changes"


def test_a_grant_that_begins_says_when(hopper: Cluster, cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=1)
    give(limit, 4, begin_at=AT + DAY, end_at=None)

    answer = ask(cast)

    assert hopper.slug == "hopper"
    assert answer.when is not None
    assert (answer.when.median_at, answer.when.sure_at) == (AT + DAY, AT + DAY)
    assert answer.when.basis == "known_changes"


def test_how_long_its_like_has_run_says_when(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=2)
    has_run(hopper, cast.llm, list(range(1, 11)))
    reserve(hopper, cast.llm, units=2, controller="Job/now", held_at=AT - HOUR)

    answer = ask(cast)

    assert answer.when is not None
    # Of nine lives longer than an hour the fifth lasted six, the ninth ten.
    assert (answer.when.median_at, answer.when.sure_at) == (AT + 5 * HOUR, AT + 9 * HOUR)
    assert (answer.when.basis, answer.when.pods_without_estimate) == ("usual_lifetimes", 0)


def test_a_kind_without_history_is_judged_by_its_project(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=2)
    has_run(hopper, cast.llm, [2, 2, 4, 4, 4], kind="Notebook")
    reserve(hopper, cast.llm, units=2, controller="Job/now", held_at=AT - HOUR)

    answer = ask(cast)

    assert answer.when is not None
    assert answer.when.median_at == AT + 3 * HOUR


def test_without_history_nothing_is_promised(hopper: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=2)
    reserve(hopper, cast.llm, units=2)

    assert ask(cast).when is None


def test_nodes_that_are_full_are_reported_beside_the_quota(hopper: Cluster, cast: Cast) -> None:
    seen = see_size(hopper, "nvidia_com_gpu", "large", at=AT - 2 * HOUR)
    run(hopper, cast.llm, units=5)

    (headroom,) = ask(cast).clusters

    assert headroom == ClusterHeadroom(hopper.pk, "hopper", seen.window_start, 8, 5)
    assert headroom.free_units == 3
    assert ask(cast, model_group="A100").clusters[0].offered_units == 0


def test_a_cluster_not_seen_lately_shows_nothing_of_its_room(hopper: Cluster, cast: Cast) -> None:
    see_size(hopper, "nvidia_com_gpu", "large", at=AT - DAY)

    (headroom,) = ask(cast).clusters

    assert (headroom.offered_units, headroom.free_units, headroom.seen_at) == (None, None, None)


def test_an_answer_costs_at_most_seven_statements_however_much_runs(
    hopper: Cluster, cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=2)
    give(limit, 1, begin_at=AT + DAY)
    has_run(hopper, cast.llm, list(range(1, 11)))
    for number in range(8):
        reserve(hopper, cast.llm, units=2, held_at=AT - timedelta(minutes=number))

    with django_assert_num_queries(7):
        assert not ask(cast).verdict.fits
    QuotaLimit.objects.update(limit_units=99)
    with django_assert_num_queries(5):
        assert ask(cast).verdict.fits


def test_a_project_without_a_cluster_is_answered_too(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=2)

    answer = ask(cast)

    assert (answer.verdict.fits, answer.cluster, answer.clusters) == (True, "", ())
