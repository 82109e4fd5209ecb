"""/api/v1/quota-usage/ and /api/v1/enforcement-targets/ through HTTP."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from quotas.models import EnforcementTarget, QuotaLimit
from quotas.services.enforcement.targets import refresh_targets
from tenants.domain.actors import system_actor
from tests.quotas.api.conftest import Caller
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit, see_size
from tests.support.quotas.fair_use import give, suspend
from tests.support.quotas.fair_use_caps import make_wall
from tests.support.shared_rows import shared_rows

URL = "/api/v1/quota-usage/"


@shared_rows
def used(cast: Cast) -> None:
    cluster = make_cluster()
    bind(cluster, "llm", cast.llm)
    bind(cluster, "virus", cast.virus)
    hold(cluster, "llm", units=3, owner="carol")
    hold(cluster, "virus", units=1)
    make_limit(cast.acme, units=4)
    make_limit(cast.acme, cast.llm, units=2)


@pytest.mark.usefixtures("used")
def test_an_administrator_sees_the_whole_organization(cast: Cast, caller: Caller) -> None:
    (acme,) = caller("alice").get(URL).json()["results"]

    assert acme["slug"] == "acme"
    assert acme["sizes"][2] == {
        "size": "large",
        "model_group": "",
        "cluster": "",
        "limit_state": "set",
        "limit_units": 4,
        "configured_units": 4,
        "grants": [],
        "used_units": 3,
        "reserved_units": 0,
        "free_units": 1,
        "over_units": 0,
        "used_percent": 75,
        "burst_limit_units": 0,
        "burst_used_units": 0,
        "hoarded_units": 0,
        "refused_workloads": 0,
        "clusters_full": [],
        "clusters_constrained": [],
        "clusters_stale": [],
    }
    assert (acme["is_suspended"], acme["more_specific_sizes"]) == (False, [])
    assert [project["slug"] for project in acme["projects"]] == ["llm", "vision"]
    llm, vision = acme["projects"]
    assert (llm["sizes"][2]["used_units"], llm["sizes"][2]["over_units"]) == (3, 1)
    assert llm["sizes"][2]["used_percent"] == 100
    assert [user["user"] for user in llm["users"]] == ["carol"]
    assert llm["users"][0]["sizes"][0]["limit_units"] is None
    assert vision["sizes"][0] | {"size": "small"} == {
        **acme["sizes"][2],
        "size": "small",
        "limit_state": "unset",
        "limit_units": None,
        "configured_units": None,
        "used_units": 0,
        "free_units": None,
        "used_percent": None,
    }
    assert str(cast.acme.pk) == acme["id"]


@pytest.mark.usefixtures("used")
def test_a_member_sees_the_own_project_only(caller: Caller) -> None:
    (acme,) = caller("carol").get(URL).json()["results"]

    assert (acme["sizes"], acme["more_specific_sizes"]) == ([], [])
    assert [project["slug"] for project in acme["projects"]] == ["llm"]


@pytest.mark.usefixtures("used")
def test_the_platform_sees_every_organization(cast: Cast, caller: Caller) -> None:
    client = caller("ann")

    listed = client.get(URL).json()["results"]
    filtered = client.get(URL, {"organization": str(cast.umbrella.pk)}).json()["results"]

    assert [row["slug"] for row in listed] == ["acme", "umbrella"]
    assert [row["slug"] for row in filtered] == ["umbrella"]
    assert filtered[0]["projects"][0]["sizes"][2]["used_units"] == 1


@pytest.mark.usefixtures("used")
def test_grants_and_suspensions_are_reported(cast: Cast, caller: Caller) -> None:
    limit = QuotaLimit.objects.get(project=cast.llm)
    give(limit, 3, end_at=None)
    suspend(cast.acme, cast.llm)

    (acme,) = caller("alice").get(URL).json()["results"]
    llm, vision = acme["projects"]

    large = llm["sizes"][2]
    assert (large["limit_units"], large["configured_units"], large["free_units"]) == (5, 2, 2)
    assert large["grants"] == [
        {
            "units": 3,
            "valid_from": "2026-11-02T08:00:00Z",
            "valid_until": None,
            "reason": "request",
        }
    ]
    assert (llm["is_suspended"], vision["is_suspended"], acme["is_suspended"]) == (
        True,
        False,
        False,
    )


@pytest.mark.usefixtures("used")
def test_usage_costs_a_fixed_number_of_statements(
    caller: Caller, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = caller("ann")

    with django_assert_max_num_queries(16):
        client.get(URL)


@pytest.mark.usefixtures("used")
def test_enforcement_is_the_platforms_to_see(caller: Caller) -> None:
    refresh_targets(at=AT, actor=system_actor("tests"))
    url = "/api/v1/enforcement-targets/"
    pk = EnforcementTarget.objects.get().pk

    listed = caller("frank").get(url, {"cluster": "hopper", "state": "pending"}).json()["results"]
    one = caller("ann").get(f"{url}{pk}/")
    hidden = caller("alice").get(f"{url}{pk}/")

    assert listed[0]["desired_hard"] == {
        "requests.nvidia.com/gpu": 2,
        "requests.nvidia.com/mig-1g.10gb": 0,
    }
    assert (one.status_code, one.json()["namespace"]) == (200, "llm")
    assert hidden.status_code == 404
    assert caller("alice").get(url).json()["results"] == []


def test_where_clusters_let_in_less_is_reported_by_their_names_alone(
    cast: Cast, caller: Caller
) -> None:
    now = timezone.now()
    for slug, used, minutes in (("full", 12, 1), ("tight", 9, 1), ("silent", 9, 60)):
        cluster = make_cluster(slug)
        bind(cluster, "llm", cast.llm)
        see_size(cluster, "nvidia.com/gpu", "large", at=now)
        read_at = now - timedelta(minutes=minutes)
        make_wall(cluster, cast.llm, hard=12, used=used, read_at=read_at)
    make_limit(cast.acme, cast.llm, units=16)

    for name in ("alice", "carol"):
        (acme,) = caller(name).get(URL).json()["results"]
        large = acme["projects"][0]["sizes"][2]

        assert large["clusters_full"] == ["full"]
        assert large["clusters_constrained"] == ["tight"]
        assert large["clusters_stale"] == ["silent"]
