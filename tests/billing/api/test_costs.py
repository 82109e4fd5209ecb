"""Costs over REST: grouped, filtered and compared, of what each role reaches."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import DailyCost
from billing.services.showback import add_up_changed_days
from tenants.models import Cluster, Project
from tests.support.billing.ledger import (
    HOUR,
    Use,
    accrue_everything,
    make_price,
    sealed_window,
)
from tests.support.billing.office import Office
from tests.support.builders import MONTH_START, bind, make_cluster
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

THIRD = MONTH_START + 50 * HOUR
COLUMNS = """organization project project_name owner currency unit_seconds unit_hours cost
    previous_cost growth share run_rate"""
THE_THIRD = {"from": "2026-10-03", "to": "2026-10-04"}


@shared_rows
def costs(office: Office) -> Office:
    """The office, and a third of October with use of two sizes and a formula for a name."""
    make_price(office.book, "8.00", size="large", price_group="H100/whole")
    Project.objects.filter(pk=office.cast.llm.pk).update(name="=cmd()", cost_center="AI-1")
    sealed_window(
        Cluster.objects.get(),
        [
            Use(office.cast.llm, 900),
            Use(office.cast.llm, 3600, owner="bob", size="large", price_group="H100/whole"),
            Use(office.cast.vision, 1800, owner="=1+1"),
        ],
        start_at=THIRD,
    )
    accrue_everything()
    add_up_changed_days()
    return office


def report(user: User, **query: str) -> dict[str, Any]:
    answer = api_client(user).get("/api/v1/costs/", query)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_costs_that_are_as_the_caller_has_them_are_not_sent_again(costs: Office) -> None:
    client = api_client(costs.cast.dora)
    for address in ("/api/v1/costs/?from=2026-10-01", "/api/v1/usage-summary/?month=2026-10"):
        first = client.get(address)
        same = client.get(address, headers={"If-None-Match": first["ETag"]})

        assert first.json()["as_of"] is None
        assert (same.status_code, same.content, same["ETag"]) == (304, b"", first["ETag"])


def rows(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (*(key["name"] for key in row["group"]), row["cost"]["amount"], row["unit_seconds"])
        for row in body["results"]
    ]


def test_costs_by_project_and_size_with_the_days_before(costs: Office) -> None:
    body = report(costs.cast.alice, **THE_THIRD, group_by="project,size")

    assert rows(body) == [
        ("=cmd()", "large", "8.00", 3600),
        ("VISION", "small", "1.00", 1800),
        ("=cmd()", "small", "0.50", 900),
    ]
    assert body["results"][0]["group"][0] == {
        "by": "project",
        "value": str(costs.cast.llm.pk),
        "name": "=cmd()",
        "slug": "llm",
        "organization": "acme",
    }
    assert [row["share"] for row in body["results"]] == ["0.8421", "0.1053", "0.0526"]
    assert (body["previous_from"], body["tiers_included"]) == ("2026-10-02", False)
    assert body["totals"][0]["cost"] == {"amount": "9.50", "currency": "EUR"}


def test_growth_compares_with_as_many_days_before(costs: Office) -> None:
    body = report(costs.cast.dora, **{"from": "2026-10-02", "to": "2026-10-04"})

    assert rows(body) == [("Acme", "9.50", None), ("Umbrella", "0.00", None)]
    acme, umbrella = body["results"]
    assert (acme["previous_cost"]["amount"], acme["growth"]) == ("3.00", "2.1667")
    assert (umbrella["previous_cost"]["amount"], umbrella["growth"]) == ("0.03", "-1.0000")


def test_use_that_adds_up_to_nothing_at_two_prices_shows_its_cost(costs: Office) -> None:
    row = DailyCost.objects.get(day="2026-10-03", owner="carol")
    row.pk, row.unit_seconds, row.unit_price = None, -row.unit_seconds, row.unit_price / 2
    row.save()

    body = report(costs.cast.alice, **THE_THIRD, group_by="owner", size="small")

    assert rows(body) == [("=1+1", "1.00", 1800), ("carol", "0.25", 0)]
    assert body["totals"][0]["cost"]["amount"] == "1.25"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"group_by": "owner"}, [("bob", "8.00"), ("=1+1", "1.00"), ("carol", "0.50")]),
        ({"group_by": "cost_center"}, [("AI-1", "8.50"), ("", "1.00")]),
        ({"group_by": "price_group"}, [("H100/whole", "8.00"), ("H100/1g.10gb", "1.50")]),
        ({"group_by": "cluster", "size": "small"}, [("Hopper", "1.50")]),
        ({"group_by": "size", "cost_center": "AI-1"}, [("large", "8.00"), ("small", "0.50")]),
        ({"group_by": "owner", "owner": "carol"}, [("carol", "0.50")]),
        ({"group_by": "owner", "organization": "00000000-0000-0000-0000-000000000000"}, []),
    ],
)
def test_each_dimension_groups_and_filters(
    costs: Office, query: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    body = report(costs.cast.ann, **THE_THIRD, **query)

    assert [row[:2] for row in rows(body)] == expected


def test_each_role_sees_what_it_reads_charges_of_and_a_member_its_own(costs: Office) -> None:
    cast = costs.cast
    asked = {"from": "2026-10-01", "to": "2026-11-01", "group_by": "project,owner"}

    seen = {
        user: [row[:2] for row in rows(report(user, **asked))] for user in (cast.bob, cast.carol)
    }

    assert seen[cast.bob] == [("=cmd()", "bob"), ("=cmd()", "carol")]
    assert seen[cast.carol] == [("=cmd()", "carol")]
    assert [row[0] for row in rows(report(cast.mallory, **asked))] == ["VIRUS"]
    assert len(report(cast.dora, **asked)["results"]) == 5


def test_the_answer_says_how_far_metering_has_come(costs: Office) -> None:
    body = report(costs.cast.dora, **THE_THIRD)

    assert (body["metered_until"], body["open_hours"]) == ("2026-10-03T03:00:00Z", 0)


def test_a_tenant_waits_for_the_clusters_of_its_own_namespaces_only(costs: Office) -> None:
    october = {"from": "2026-10-01", "to": "2026-11-01"}
    hopper, lagging = Cluster.objects.get(), make_cluster("lagging")
    bind(hopper, "own", costs.cast.llm)
    bind(lagging, "earlier", costs.cast.llm, begin_at=MONTH_START - 48 * HOUR, end_at=MONTH_START)
    bind(lagging, "other", costs.cast.virus)

    tenant, platform = report(costs.cast.alice, **october), report(costs.cast.dora, **october)

    assert tenant["metered_until"] == "2026-10-03T03:00:00Z"
    assert platform["metered_until"] == "2026-10-01T00:00:00Z"
    assert report(costs.cast.mallory, **october)["metered_until"] == "2026-10-01T00:00:00Z"
    bind(lagging, "now", costs.cast.vision)
    assert report(costs.cast.alice, **october)["metered_until"] == "2026-10-01T00:00:00Z"
    one = report(costs.cast.alice, **october, project=str(costs.cast.llm.pk))
    assert one["metered_until"] == "2026-10-03T03:00:00Z"
    for cluster, until in ((hopper, "2026-10-03T03:00:00Z"), (lagging, "2026-10-01T00:00:00Z")):
        of_cluster = report(costs.cast.alice, **october, cluster=str(cluster.pk))
        assert of_cluster["metered_until"] == until
    foreign = report(costs.cast.alice, **october, organization=str(costs.cast.umbrella.pk))
    assert (foreign["metered_until"], foreign["open_hours"], foreign["results"]) == (None, 0, [])
    member = report(costs.cast.carol, **october, project=str(costs.cast.llm.pk))
    assert member["metered_until"] == "2026-10-03T03:00:00Z"


def test_the_answer_says_what_the_costs_lack(costs: Office) -> None:
    cast = costs.cast
    lacking = [
        Use(cast.llm, 600, size="medium", price_group="A100/whole"),
        Use(cast.vision, 300, size="medium", price_group="A100/whole"),
    ]
    sealed_window(Cluster.objects.get(), lacking, start_at=THIRD + HOUR)
    sealed_window(Cluster.objects.get(), [Use(cast.vision)], start_at=THIRD + 2 * HOUR)
    accrue_everything()

    def lacks(user: User, **query: str) -> tuple[dict[str, int], int]:
        body = report(user, **{**THE_THIRD, **query})
        return body["unpriced_unit_seconds"], body["changed_days"]

    assert lacks(cast.dora) == ({"medium": 900}, 1)
    assert lacks(cast.dora, project=str(cast.vision.pk)) == ({"medium": 300}, 1)
    assert lacks(cast.dora, size="small") == ({}, 1)
    assert lacks(cast.dora, **{"from": "2026-10-04", "to": "2026-10-05"}) == ({}, 0)
    assert lacks(cast.mallory) == ({}, 0)
    add_up_changed_days()
    assert lacks(cast.dora)[1] == 0


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ({"from": "2026-10-02", "to": "2026-10-02"}, "cost_range_invalid", "to"),
        ({"from": "2024-10-02", "to": "2026-10-02"}, "cost_range_invalid", "to"),
        ({"group_by": "day"}, "cost_grouping_invalid", "group_by"),
        ({"team": "x"}, "invalid_input", "team"),
    ],
)
def test_what_cannot_be_reported_is_refused_with_its_field(
    office: Office, query: dict[str, str], code: str, field: str
) -> None:
    answer = api_client(office.cast.dora).get("/api/v1/costs/", query)

    assert problem(answer) == (422, code)
    body = answer.json()
    assert field in {body.get("field"), *(one["field"] for one in body.get("problems", []))}


def test_more_groups_and_prices_than_one_answer_reads_are_refused(
    costs: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("billing.selectors.cost_report.SUMS_MAX", 1)

    refused = api_client(costs.cast.dora).get(
        "/api/v1/costs/", {**THE_THIRD, "group_by": "project,size"}
    )

    assert refused.json()["code"] == "cost_rows_too_many"


def test_the_csv_has_the_rows_of_the_answer_and_no_formula(costs: Office) -> None:
    answer = api_client(costs.cast.alice).get(
        "/api/v1/costs/csv/", {**THE_THIRD, "group_by": "project,owner", "size": "small"}
    )

    assert answer["Content-Disposition"] == (
        'attachment; filename="costs-2026-10-03-2026-10-03.csv"'
    )
    header, *records = answer.content.decode().splitlines()
    assert header == ",".join(f'"{name}"' for name in COLUMNS.split())
    assert records == [
        '"acme","vision","VISION","\'=1+1","EUR",1800,0.500000,1.00,0.00,,0.6667,',
        '"acme","llm","\'=cmd()","carol","EUR",900,0.250000,0.50,0.00,,0.3333,',
    ]


def test_statements_do_not_grow_with_projects(costs: Office) -> None:
    client = api_client(costs.cast.dora)
    client.get("/api/v1/costs/", THE_THIRD)
    counts = []
    for narrowed in ({"project": str(costs.cast.llm.pk)}, {}):
        with CaptureQueriesContext(connection) as statements:
            client.get("/api/v1/costs/", {**THE_THIRD, "group_by": "project,owner", **narrowed})
        counts.append(len(statements))

    assert counts[0] == counts[1]
    assert counts[0] <= 9
