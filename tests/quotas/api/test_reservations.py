"""/api/v1/reservations/ and /api/v1/admission-refusals/: who sees what, and what may be asked."""

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_refusal, make_reservation
from tests.support.shared_rows import shared_rows

URLS = ("/api/v1/reservations/", "/api/v1/admission-refusals/")


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    for project in (cast.llm, cast.virus):
        make_reservation(cluster, project, "bob")
        make_refusal(cluster, project)
    make_refusal(cluster, None)
    return cluster


def get(person: User, url: str, **given: str) -> list[dict[str, object]]:
    client = APIClient()
    client.force_login(person)
    answer = client.get(url, given)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, object]] = answer.json()["results"]
    return found


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("url", URLS)
def test_a_tenant_sees_its_own_projects_only(cast: Cast, url: str) -> None:
    assert [row["project"] for row in get(cast.carol, url)] == [str(cast.llm.pk)]
    assert [row["project"] for row in get(cast.mallory, url)] == [str(cast.virus.pk)]


@pytest.mark.usefixtures("cluster")
def test_refusals_in_nobodys_namespace_are_for_the_platform(cast: Cast) -> None:
    assert len(get(cast.frank, URLS[0])) == 2
    assert [row["project"] for row in get(cast.frank, URLS[1])].count(None) == 1


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"state": "reserved"}, 2),
        ({"state": "held"}, 0),
        ({"user": "bob", "namespace": "llm"}, 2),
        ({"user": "carol"}, 0),
        ({"cluster": "hopper", "origin": "admission"}, 2),
    ],
)
def test_reservations_are_filtered(cast: Cast, given: dict[str, str], count: int) -> None:
    assert len(get(cast.frank, URLS[0], **given)) == count


def test_a_reservation_is_reported_whole(cast: Cast, cluster: Cluster) -> None:
    (row,) = get(cast.frank, URLS[0], project=str(cast.llm.pk))

    assert (row["cluster"], row["pod_uid"], row["username"]) == (cluster.slug, "let-in-0", "bob")
    assert (row["size"], row["units"], row["model_groups"]) == ("large", 1, ["H100"])
    assert (row["state"], row["origin"], row["release_reason"]) == ("reserved", "admission", "")


@pytest.mark.usefixtures("cluster")
def test_nobody_writes_what_admission_wrote(cast: Cast) -> None:
    client = APIClient()
    client.force_login(cast.frank)

    assert {client.post(url, {}).status_code for url in URLS} == {405}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("table", ["reservation", "admissionrefusal"])
def test_the_admin_shows_it_and_lets_nobody_change_it(cast: Cast, table: str) -> None:
    cast.frank.is_staff = True
    cast.frank.save()
    client = APIClient()
    client.force_login(cast.frank)

    page = client.get(f"/admin/quotas/{table}/")

    assert page.status_code == 200
    assert "hopper" in page.content.decode().lower()
    assert client.get(f"/admin/quotas/{table}/add/").status_code == 403
