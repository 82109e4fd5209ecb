"""The page of device sharing: a week, in words, for the platform's people."""

import re
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from pytest_django import DjangoAssertNumQueries

from metering.admin.devices import ROWS_MAX, sharing_context
from tenants.models import Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.shared_devices import HOUR, instance, moment, offer, share
from tests.support.shared_rows import shared_rows

URL = "/admin/metering/deviceusage/sharing/"

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    people = make_cast()
    User.objects.update(is_staff=True)
    return people


def see(user: User, **query: str) -> tuple[int, str]:
    client = Client()
    client.force_login(user)
    with override_settings(UNFOLD={}):
        answer = client.get(URL, query)
    return answer.status_code, answer.content.decode()


def tell(*, week: str, at: datetime, cluster: str = "") -> dict[str, Any]:
    return sharing_context(week=week, cluster=cluster, clusters=Cluster.objects.all(), at=at)


def meet(cast: Cast, cluster: Cluster) -> None:
    """Let LLM and Virus share a device for ten minutes."""
    offer(cluster, 4)
    share(cluster, cast.llm, 0, 30)
    share(cluster, cast.virus, 20, 60)


def test_it_shows_who_met_whom_and_how_surely(cast: Cast) -> None:
    hopper = make_cluster()
    offer(hopper, 4)
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.virus, 20, 60)
    instance(hopper, cast.llm, 1)
    instance(hopper, cast.virus, 2)

    status, page = see(cast.ann, week=f"{HOUR:%Y-%m-%d}")

    assert status == 200
    for words in ("acme/llm", "umbrella/virus", "Same device", "Instances of one GPU", "GPU-1"):
        assert words in page
    assert f"{moment(20):%Y-%m-%d %H:%M}" in page
    assert '<th scope="col">What is known</th>' in page


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_a_role_of_one_organization_does_not_open_it(cast: Cast, name: str) -> None:
    assert see(getattr(cast, name))[0] == 403


@pytest.mark.parametrize("week", ["", "soon", "2026-02-30", "0001-01-01", "2999-01-01"])
def test_what_is_no_week_is_the_week_that_ends_now(cast: Cast, week: str) -> None:  # noqa: ARG001
    context = tell(week=week, at=AT)

    assert context["end"] == AT
    assert 6 <= (AT - context["begin"]).days < 7
    assert context["following"] is None


def test_an_earlier_week_leads_to_the_one_before_and_after(cast: Cast) -> None:  # noqa: ARG001
    context = tell(week="2026-09-07", at=AT)

    reported = [f"{context[name]:%Y-%m-%d}" for name in ("begin", "end", "previous", "following")]
    assert reported == ["2026-09-07", "2026-09-14", "2026-08-31", "2026-09-14"]


def test_a_long_week_is_cut_and_says_so(cast: Cast) -> None:
    hopper = make_cluster()
    for number in range(ROWS_MAX // 2 + 1):
        share(hopper, cast.llm, 0, 1, node=f"n-{number}")
        share(hopper, cast.virus, 0, 1, node=f"n-{number}")

    context = tell(week=f"{HOUR:%Y-%m-%d}", at=moment(60))

    assert len(context["rows"]) == ROWS_MAX
    assert context["is_cut"] is True


def test_one_cluster_is_shown_alone(cast: Cast) -> None:
    meet(cast, make_cluster())
    meet(cast, make_cluster("ampere"))
    week = f"{HOUR:%Y-%m-%d}"

    shown = {
        cluster: {row[5] for row in tell(week=week, cluster=cluster, at=moment(60))["rows"]}
        for cluster in ("", "ampere", "nowhere")
    }
    status, page = see(cast.ann, week=week, cluster="ampere")

    assert shown == {
        "": {"hopper", "ampere"},
        "ampere": {"ampere"},
        "nowhere": {"hopper", "ampere"},
    }
    assert status == 200
    assert "<td>ampere</td>" in page
    assert "<td>hopper</td>" not in page
    assert '<option value="ampere" selected>' in page
    assert "&amp;cluster=ampere" in page


@pytest.mark.parametrize(
    ("cluster", "place"), [("hopper", "Hopper"), ("", "any cluster"), ("nowhere", "any cluster")]
)
def test_a_week_without_meetings_says_so(cast: Cast, cluster: str, place: str) -> None:
    make_cluster()

    _, page = see(cast.ann, week="2026-09-07", cluster=cluster)

    assert (
        f"No two projects were known to be close to each other in {place} in this time."
    ) in page
    assert '<table class="intervals">' not in page


def test_it_is_named_at_the_top_and_not_after_a_table(cast: Cast) -> None:
    _, page = see(cast.ann)

    (way,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert re.findall(r">\s*Device sharing\s*</a>", way) != []


def test_the_page_costs_three_statements_however_many_clusters_and_meetings(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(3):
        meet(cast, make_cluster(f"cluster-{number}"))

    with django_assert_num_queries(3):
        reported = tell(week=f"{HOUR:%Y-%m-%d}", at=moment(60))

    assert len(reported["rows"]) == 6
