"""The report of sharing over REST: everybody reads their own side, and no names of others."""

import csv
import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from metering.api.device_sharing import COLUMNS
from metering.domain.devices.attribution import NOTES, CoTenancyEvidence
from tenants.models import Cluster, NamespaceBinding
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.shared_devices import HOUR, moment, offer, share
from tests.support.shared_rows import shared_rows

URL = "/api/v1/reports/device-sharing/"
DAY = {"from": HOUR.isoformat(), "to": moment(60).isoformat()}

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    """LLM and Vision of Acme and Virus of Umbrella, on the one shared device of a node."""
    people, hopper = make_cast(), make_cluster()
    offer(hopper, 4)
    share(hopper, people.llm, 0, 30)
    share(hopper, people.vision, 20, 30)
    share(hopper, people.virus, 25, 60)
    return people


def ask(user: User, path: str = "", **query: Any) -> Any:  # noqa: ANN401 - The test client's answer.
    client = APIClient()
    client.force_login(user)
    return client.get(f"{URL}{path}", {**DAY, **query})


def sides(user: User, **query: Any) -> set[tuple[str, str]]:  # noqa: ANN401 - Fields of a query.
    answer = ask(user, **query)
    assert answer.status_code == 200, answer.content
    return {
        (row["project"], row["other_project"] or row["peer"]) for row in answer.json()["results"]
    }


@pytest.mark.parametrize("name", ["frank", "ann", "dora"])
def test_the_platforms_people_read_every_side_by_name(cast: Cast, name: str) -> None:
    projects = ("llm", "vision", "virus")

    assert sides(getattr(cast, name)) == {
        (one, other) for one in projects for other in projects if one != other
    }


def test_a_tenant_reads_its_own_side_without_the_names_of_others(cast: Cast) -> None:
    assert sides(cast.alice) == {
        ("llm", "vision"),
        ("vision", "llm"),
        ("llm", "another tenant"),
        ("vision", "another tenant"),
    }
    assert sides(cast.bob) == {
        ("llm", "another project of the organization"),
        ("llm", "another tenant"),
    }
    assert sides(cast.mallory) == {("virus", "another tenant")}


@pytest.mark.parametrize("path", ["", "csv/"])
def test_no_word_of_another_tenant_is_in_any_answer(cast: Cast, path: str) -> None:
    words = ask(cast.alice, path).content.decode()

    for secret in ("umbrella", "virus", str(cast.virus.pk), str(cast.umbrella.pk)):
        assert secret not in words.lower()


def test_a_meeting_shows_when_where_and_how_surely(cast: Cast) -> None:
    body = ask(cast.bob).json()

    first = body["results"][0]
    assert first == {
        "begin_at": f"{moment(20):%Y-%m-%dT%H:%M:%SZ}",
        "end_at": f"{moment(30):%Y-%m-%dT%H:%M:%SZ}",
        "cluster": "hopper",
        "node": "node-1",
        "device_scope": "nvidia.com/gpu",
        "sharing_mode": "time-slicing",
        "evidence": "same_device",
        "organization": "acme",
        "project": "llm",
        "peer": "another project of the organization",
        "other_organization": "acme",
        "other_project": "",
    }
    assert set(body["evidence"]) == set(CoTenancyEvidence)
    assert body["notes"] == list(NOTES)
    assert body["next_cursor"] is None


def test_one_side_can_be_asked_for(cast: Cast) -> None:
    assert sides(cast.frank, organization=str(cast.umbrella.pk)) == {
        ("virus", "llm"),
        ("virus", "vision"),
    }
    assert sides(cast.alice, organization=str(cast.umbrella.pk)) == set()


@shared_rows
def ampere(cast: Cast) -> Cluster:
    """Return another cluster, on which LLM met Virus a minute long and Vision never was."""
    made = make_cluster("ampere")
    offer(made, 4)
    share(made, cast.llm, 40, 50)
    share(made, cast.virus, 49, 60)
    bind(made, "llm", cast.llm)
    bind(made, "virus", cast.virus)
    bind(Cluster.objects.get(slug="hopper"), "vision", cast.vision)
    return made


@pytest.mark.parametrize("path", ["", "csv/"])
@pytest.mark.usefixtures("ampere")
def test_one_cluster_can_be_asked_for(cast: Cast, path: str) -> None:
    asked: dict[str, dict[str, str]] = {
        "hopper": {"cluster": "hopper"},
        "ampere": {"cluster": "ampere"},
        "all": {},
    }

    found = {
        name: ask(cast.frank, path, **query).content.decode().count("node-1")
        for name, query in asked.items()
    }

    assert found == {"hopper": 6, "ampere": 2, "all": 8}
    reported = ask(cast.bob, cluster="ampere").json()["results"]
    assert [(one["cluster"], one["project"], one["peer"]) for one in reported] == [
        ("ampere", "llm", "another tenant")
    ]


@pytest.mark.usefixtures("ampere")
def test_pages_of_one_cluster_follow_each_other(cast: Cast) -> None:
    first = ask(cast.frank, cluster="hopper", page_size=4).json()
    second = ask(cast.frank, cluster="hopper", page_size=4, cursor=first["next_cursor"]).json()

    assert (len(first["results"]), len(second["results"])) == (4, 2)
    assert second["next_cursor"] is None
    assert (
        first["results"] + second["results"] == ask(cast.frank, cluster="hopper").json()["results"]
    )


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("frank", "amper"),
        ("frank", "Ampere"),
        ("alice", "amper"),
        ("mallory", "hopper"),
        ("carol", "hopper"),
    ],
)
@pytest.mark.parametrize("path", ["", "csv/"])
@pytest.mark.usefixtures("ampere")
def test_a_cluster_of_nobody_and_one_of_others_are_refused_alike(
    cast: Cast, name: str, cluster: str, path: str
) -> None:
    answer = ask(getattr(cast, name), path, cluster=cluster)

    body = answer.json()
    assert (answer.status_code, body["code"], body["field"]) == (422, "invalid_input", "cluster")
    assert body["detail"] == "There is no such cluster."
    assert body["problems"] == [
        {
            "field": "cluster",
            "code": "cluster_unknown",
            "message": "None of your projects is on a cluster of that name.",
        }
    ]


@pytest.mark.usefixtures("ampere")
def test_a_cluster_that_was_left_can_still_be_asked_for(cast: Cast) -> None:
    for binding in NamespaceBinding.objects.filter(project=cast.virus):
        binding.valid = (binding.valid.lower, moment(60))
        binding.save(update_fields=["valid"])

    assert sides(cast.mallory, cluster="ampere") == {("virus", "another tenant")}


def test_pages_follow_each_other(cast: Cast) -> None:
    first = ask(cast.frank, page_size=4).json()
    second = ask(cast.frank, page_size=4, cursor=first["next_cursor"]).json()

    assert (len(first["results"]), len(second["results"])) == (4, 2)
    assert second["next_cursor"] is None
    whole = ask(cast.frank).json()["results"]
    assert first["results"] + second["results"] == whole


def test_the_csv_shows_the_same(cast: Cast) -> None:
    answer = ask(cast.frank, "csv/")

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="device-sharing.csv"'
    rows = list(csv.reader(io.StringIO(answer.content.decode())))
    assert tuple(rows[0]) == COLUMNS
    reported = [
        tuple(str(row[name]) for name in COLUMNS) for row in ask(cast.frank).json()["results"]
    ]
    assert [tuple(row) for row in rows[1:]] == reported


def test_a_name_no_spreadsheet_may_run_begins_with_an_apostrophe(cast: Cast) -> None:
    hopper = Cluster.objects.get()
    share(hopper, cast.llm, 0, 5, node='=HYPERLINK("x")')
    share(hopper, cast.virus, 0, 5, node='=HYPERLINK("x")')

    rows = list(csv.reader(io.StringIO(ask(cast.mallory, "csv/").content.decode())))

    assert rows[1][COLUMNS.index("node")] == '\'=HYPERLINK("x")'


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"to": HOUR.isoformat()}, "to"),
        ({"from": "2026-08-01T00:00:00Z"}, "to"),
        ({"from": "2126-01-01T00:00:00Z", "to": "2126-01-02T00:00:00Z"}, "to"),
        ({"from": "yesterday"}, "from"),
        ({"organization": "acme"}, "organization"),
        ({"page_size": "201"}, "page_size"),
        ({"page_size": "0"}, "page_size"),
        ({"cursor": "x"}, "cursor"),
        ({"projct": "x"}, "projct"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_field(
    cast: Cast, query: dict[str, str], field: str
) -> None:
    answer = ask(cast.frank, **query)

    assert answer.status_code in {400, 422}
    body = answer.json()
    assert field in {body.get("field"), *(one["field"] for one in body.get("problems", ()))}


def test_without_a_time_nothing_is_reported(cast: Cast) -> None:
    client = APIClient()
    client.force_login(cast.frank)

    assert client.get(URL).status_code in {400, 422}


@pytest.mark.parametrize("name", ["frank", "alice"])
def test_the_number_of_statements_is_the_same_for_more_rows(cast: Cast, name: str) -> None:
    user = getattr(cast, name)
    with CaptureQueriesContext(connection) as few:
        ask(user)
    hopper = Cluster.objects.get()
    for number in range(20):
        share(hopper, (cast.llm, cast.virus)[number % 2], 0, 9, node=f"n-{number // 2}")
    with CaptureQueriesContext(connection) as many:
        answer = ask(user)

    assert len(answer.json()["results"]) > 10
    assert len(many) == len(few), [one["sql"][:200] for one in many]
    assert sum("range_agg" in one["sql"] for one in many) == 1
