"""Incidents over REST: listed with what they hold, and settled at once."""

from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from metering.domain.corrections.exceptions import REMEDIES, ExceptionKind
from metering.models import MeteringException, MeteringWindow
from tenants.models import Cluster, NamespaceBinding
from tests.support.billing.ledger import assign, make_book, make_price
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.alike import allocated, excepted, hour_of, stray
from tests.support.metering.clients import API, ClientFor, results
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    return make_cast()


@shared_rows
def cluster() -> Cluster:
    return make_cluster(metered_from=HOUR)


@pytest.fixture
def frank(cast: Cast, client_for: ClientFor) -> APIClient:
    return client_for(cast.frank)


def test_a_page_has_as_many_incidents_as_are_asked_for(frank: APIClient, cluster: Cluster) -> None:
    names = [f"stray-{number:02}" for number in range(60)]
    for name in names:
        stray(hour_of(cluster, 0), name, namespace=name)

    found = results(frank, "incidents", page_size="200")

    assert sorted(one["namespace"] for one in found) == names


def test_an_incident_has_its_hours_its_use_and_its_cost(
    cast: Cast, frank: APIClient, cluster: Cluster
) -> None:
    book = make_book()
    assign(cast.acme, book)
    make_price(book, "4.00", size="large")
    bind(cluster, "llm", cast.llm)
    allocated(cluster, "a", "large", price_group="H100/whole")
    for number in range(3):
        stray(hour_of(cluster, number), "a", namespace="llm")
    strange = stray(hour_of(cluster, 0), "b", namespace="llm", held=7)

    [found] = results(frank, "incidents", is_open="true")

    strange.refresh_from_db()
    assert found == {
        "id": str(strange.incident),
        "cluster": str(cluster.pk),
        "kind": "unbound_namespace",
        "cause": "unbound_namespace",
        "namespace": "llm",
        "resource": "",
        "node": "",
        "exceptions": 4,
        "hours": 3,
        "pods": 2,
        "first_start": "2026-10-05T13:00:00Z",
        "last_start": "2026-10-05T15:00:00Z",
        "is_blocking": False,
        "held": [
            {"size": "large", "unit_seconds": 10_800},
            {"size": "", "unit_seconds": 7},
        ],
        "held_unit_seconds": 10_807,
        "held_costs": [{"amount": "12.00", "currency": "EUR"}],
        "is_cost_whole": False,
        "remedy": REMEDIES[ExceptionKind.UNBOUND_NAMESPACE],
    }
    assert frank.get(f"{API}/incidents/{found['id']}/").json() == found


def test_binding_is_previewed_with_its_bill_and_changes_nothing(
    cast: Cast, frank: APIClient, cluster: Cluster, client_for: ClientFor
) -> None:
    book = make_book()
    assign(cast.acme, book)
    make_price(book, "4.00", size="large")
    allocated(cluster, "a", "large", price_group="H100/whole")
    for number in range(3):
        stray(hour_of(cluster, number), "a", namespace="dana")
    bind(cluster, "dana", cast.vision, begin_at=HOUR + timedelta(hours=2))
    [found] = results(frank, "incidents")
    path = f"{API}/incidents/{found['id']}/preview-binding/"

    with time_machine.travel(HOUR + timedelta(days=1), tick=False):
        shown = frank.post(path, {"project": str(cast.llm.pk)}, format="json")
        hidden = client_for(cast.bob).post(path, {"project": str(cast.llm.pk)}, format="json")

    assert (shown.status_code, shown.json()) == (
        200,
        {
            "cluster": str(cluster.pk),
            "namespace": "dana",
            "organization": str(cast.acme.pk),
            "project": str(cast.llm.pk),
            "valid_from": "2026-10-05T13:00:00Z",
            "valid_until": "2026-10-05T15:00:00Z",
            "held": [{"size": "large", "unit_seconds": 7200}],
            "costs": [{"amount": "8.00", "currency": "EUR"}],
            "is_cost_whole": True,
            "sealed_hours": 0,
            "unsealed_hours": 2,
            "late_hours": 0,
            "bills": ["October 2026"],
        },
    )
    assert hidden.status_code == 404
    assert NamespaceBinding.objects.filter(namespace="dana").count() == 1


def test_only_an_unbound_namespace_is_previewed(
    cast: Cast, frank: APIClient, cluster: Cluster
) -> None:
    excepted(hour_of(cluster, 0), "low_coverage")
    [found] = results(frank, "incidents")
    path = f"{API}/incidents/{found['id']}/preview-binding/"

    answer = frank.post(path, {"project": str(cast.llm.pk)}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (409, "metering_namespace_not_unbound")


def test_filters_choose_the_exceptions_that_count(frank: APIClient, cluster: Cluster) -> None:
    for number in range(3):
        stray(hour_of(cluster, number), "a")
    MeteringException.objects.filter(window_start=HOUR).update(state="resolved")
    excepted(hour_of(cluster, 0), "low_coverage")
    other = make_cluster("ampere", metered_from=HOUR)

    def counts(**query: str) -> list[tuple[str, int]]:
        return [(one["kind"], one["exceptions"]) for one in results(frank, "incidents", **query)]

    assert counts() == [("low_coverage", 1), ("unbound_namespace", 3)]
    assert counts(is_open="true", kind="unbound_namespace") == [("unbound_namespace", 2)]
    assert counts(is_open="false") == [("unbound_namespace", 1)]
    assert counts(since="2026-10-05T15:00:00Z") == [("unbound_namespace", 1)]
    assert counts(cluster=str(other.pk)) == []
    first = frank.get(f"{API}/incidents/?page_size=1").json()
    second = frank.get(first["next"]).json()
    assert [one["exceptions"] for one in (*first["results"], *second["results"])] == [1, 3]


def test_all_of_an_incident_is_settled_and_each_refusal_has_its_reason(
    frank: APIClient, cluster: Cluster
) -> None:
    busy = hour_of(cluster, 1)
    for number in range(3):
        excepted(hour_of(cluster, number), "differs", subject="a r", namespace="llm", held=60)
    MeteringWindow.objects.filter(pk=busy.pk).update(state="collecting", lease_until=HOUR)
    [found] = results(frank, "incidents")
    path = f"{API}/incidents/{found['id']}/resolve/"

    without = frank.post(path, {"side": "kubernetes"}, format="json")
    answer = frank.post(path, {"side": "kubernetes", "note": "Its log."}, format="json")

    assert (without.status_code, without.json()["problems"][0]["field"]) == (422, "note")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "settled": 2,
            "refused": [
                {
                    "exception": MeteringException.objects.get(window=busy).pk,
                    "window_start": "2026-10-05T14:00:00Z",
                    "code": "metering_window_state",
                    "detail": "A worker collects the window at the moment.",
                    "remedy": answer.json()["refused"][0]["remedy"],
                }
            ],
            "left": 0,
        },
    )
    assert MeteringException.objects.filter(state="open").count() == 1


def test_one_call_settles_a_bounded_number_and_says_how_many_are_left(
    frank: APIClient, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metering.services.corrections.incidents.SETTLED_MAX", 2)
    for number in range(3):
        stray(hour_of(cluster, number), "a")
    [found] = results(frank, "incidents")

    path = f"{API}/incidents/{found['id']}/resolve/"
    answers = [frank.post(path, {"note": "Tests."}, format="json").json() for _ in range(2)]

    assert [(one["settled"], one["left"]) for one in answers] == [(2, 1), (1, 0)]


def test_tenants_see_their_part_and_settle_none(
    cast: Cast, cluster: Cluster, client_for: ClientFor
) -> None:
    bind(cluster, "llm", cast.llm)
    stray(hour_of(cluster, 0), "a", namespace="llm")
    hidden = stray(hour_of(cluster, 0), "b")
    hidden.refresh_from_db()
    bob, mallory = client_for(cast.bob), client_for(cast.mallory)

    [own] = results(bob, "incidents")
    refused = bob.post(f"{API}/incidents/{own['id']}/resolve/", {"note": "x"}, format="json")

    assert (own["namespace"], own["exceptions"]) == ("llm", 1)
    assert (refused.status_code, refused.json()["remedy"]) == (
        403,
        "This may be done by a platform admin.",
    )
    assert bob.get(f"{API}/incidents/{hidden.incident}/").status_code == 404
    assert results(mallory, "incidents") == []
    assert MeteringException.objects.filter(state="open").count() == 2


def test_ever_more_incidents_cost_no_more_statements(frank: APIClient, cluster: Cluster) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            results(frank, "incidents")
        return len(queries)

    stray(hour_of(cluster, 0), "a", namespace="first")
    few = statements()
    for number in range(20):
        stray(hour_of(cluster, 0), f"u-{number}", namespace=f"n-{number}")

    assert statements() == few
