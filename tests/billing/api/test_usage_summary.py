"""Use and its cost, added up over REST."""

from typing import Any

import pytest

from tenants.models import Organization
from tests.support.billing.ledger import (
    HOUR,
    Use,
    accrue_everything,
    make_ledger,
    sealed_window,
)
from tests.support.billing.office import Office
from tests.support.builders import MONTH_START, make_cluster
from tests.support.tenants.clients import api_client, problem

SUMMARY = "/api/v1/usage-summary/"


def totals(office: Office, name: str, **query: str) -> list[dict[str, Any]]:
    answer = api_client(getattr(office.cast, name)).get(SUMMARY, query)
    assert answer.status_code == 200, answer.content
    return list(answer.json()["totals"])


def test_a_month_is_added_up_with_what_its_charges_cost(office: Office) -> None:
    found = totals(office, "alice", month="2026-10", group_by="project", expand="project")

    euros = {"currency": "EUR"}
    assert sorted(
        (row["expanded"]["project"]["slug"], row["unit_seconds"], row["cost"]) for row in found
    ) == [("llm", 3600, {"amount": "2.00", **euros}), ("vision", 1800, {"amount": "1.00", **euros})]
    assert {row["charged_unit_seconds"] == row["unit_seconds"] for row in found} == {True}


def test_use_without_a_price_costs_nothing_yet(office: Office) -> None:
    other = make_cluster("ampere")
    sealed_window(other, [Use(office.cast.llm, 600, size="large")], start_at=MONTH_START + 9 * HOUR)
    accrue_everything()

    small, large = sorted(
        totals(office, "bob", month="2026-10", group_by="size"),
        key=lambda row: -row["unit_seconds"],
    )

    assert (small["size"], small["cost"]["amount"]) == ("small", "2.00")
    assert (large["size"], large["unit_seconds"]) == ("large", 600)
    assert (large["charged_unit_seconds"], large["cost"]) == (0, None)


def test_who_reads_no_charges_is_shown_use_without_cost(office: Office) -> None:
    [total] = totals(office, "carol", month="2026-10", group_by="owner")

    assert (total["owner"], total["unit_seconds"]) == ("carol", 3600)
    assert (total["charged_unit_seconds"], total["cost"]) == (0, None)


def test_charges_in_two_currencies_are_never_added(office: Office) -> None:
    payer = make_ledger("hooli", cluster_slug="ampere", billing_currency="USD")
    sealed_window(payer.cluster, [Use(payer.llm, 540)], start_at=MONTH_START + 9 * HOUR)
    accrue_everything()

    [whole] = totals(office, "dora", month="2026-10", group_by="size")
    by_tenant = totals(office, "dora", month="2026-10", group_by="organization")

    assert (whole["charged_unit_seconds"], whole["cost"]) == (6000, None)
    assert sorted(row["cost"]["currency"] for row in by_tenant) == ["EUR", "EUR", "USD"]


def test_a_month_is_that_of_the_organization_or_utc_for_several(office: Office) -> None:
    acme = office.cast.acme
    Organization.objects.filter(pk=acme.pk).update(time_zone="Europe/Berlin")
    client = api_client(office.cast.dora)

    def begins(**query: str) -> str:
        answer = client.get(SUMMARY, {"month": "2026-10", **query}).json()
        return str(answer["window_start_from"])

    assert begins(organization=str(acme.pk)) == "2026-09-30T22:00:00Z"
    assert begins(project=str(office.cast.llm.pk)) == "2026-09-30T22:00:00Z"
    assert begins() == "2026-10-01T00:00:00Z"


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"month": "October"}, ["month"]),
        ({"month": "2026-13"}, ["month"]),
        (
            {"month": "2026-10", "window_start_from": "2026-10-01T00:00:00Z"},
            ["window_start_from"],
        ),
        ({"window_start_from": "2026-10-01T00:00:00Z"}, ["window_start_before"]),
        ({"month": "2026-10", "expand": "owner"}, ["expand"]),
    ],
)
def test_a_query_that_names_no_range_is_refused(
    office: Office, query: dict[str, str], fields: list[str]
) -> None:
    answer = api_client(office.cast.dora).get(SUMMARY, query)

    assert problem(answer)[0] == 422
    found = [one["field"] for one in answer.json().get("problems", ())]
    assert (found or [answer.json()["field"]]) == fields
