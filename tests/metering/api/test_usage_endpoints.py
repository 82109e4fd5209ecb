"""Usage over REST: anyone who reads a project reads its usage, and nobody else does."""

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.serializers import ModelSerializer

from metering.access import usage_visible_to
from metering.api.usage_records import UsageRecordFilter, UsageRecordSerializer
from metering.models import UsageActivity, UsageRecord
from tenants.selectors.actors import actor_of_user
from tests.support.cast import Cast
from tests.support.metering.clients import API, RANGE, ClientFor, results

# ---------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("frank", {"a", "b", "c"}),
        ("ann", {"a", "b", "c"}),
        ("dora", {"a", "b", "c"}),
        ("alice", {"a", "b"}),
        ("bob", {"a"}),
        ("carol", {"a"}),
        ("mallory", {"c"}),
    ],
)
def test_everybody_sees_the_usage_of_their_own_projects(
    cast: Cast, client_for: ClientFor, name: str, pods: set[str]
) -> None:
    client = client_for(getattr(cast, name))

    assert {row["pod_uid"] for row in results(client, "usage-records")} == pods
    answer = client.get(f"{API}/usage-summary/", {**RANGE, "group_by": "project"})
    totals = answer.json()["totals"]
    seconds = {"a": 7200, "b": 3600, "c": 3600}
    assert sum(row["unit_seconds"] for row in totals) == sum(seconds[uid] for uid in pods)


def test_a_usage_record_shows_whole_numbers(cast: Cast, client_for: ClientFor) -> None:
    [record] = results(client_for(cast.bob), "usage-records")

    assert (record["units"], record["seconds"], record["unit_seconds"]) == (2, 3600, 7200)
    assert (record["owner"], record["price_group"]) == ("carol", "H100/whole")
    assert record["window_start"] == "2026-10-05T13:00:00Z"
    one = client_for(cast.bob).get(f"{API}/usage-records/{record['id']}/")
    assert one.json() == record


def test_a_usage_record_is_shown_as_drf_shows_it(cast: Cast) -> None:
    for record in usage_visible_to(actor_of_user(cast.frank)):
        record.activity = UsageActivity(
            busy_ratio=Decimal("0.25"), busy_coverage=None, energy_millijoules=7
        )
        serializer = UsageRecordSerializer(record)

        shown = serializer.data

        assert shown == ModelSerializer.to_representation(serializer, record)
        assert list(shown) == list(UsageRecordSerializer.Meta.fields)
        assert (shown["busy_ratio"], shown["busy_coverage"]) == ("0.250000", None)
        assert shown["energy_millijoules"] == 7


def test_somebody_elses_record_does_not_exist(cast: Cast, client_for: ClientFor) -> None:
    [record] = results(client_for(cast.mallory), "usage-records")

    answer = client_for(cast.alice).get(f"{API}/usage-records/{record['id']}/")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "pods"),
    [
        ({"size": "small"}, {"b"}),
        ({"size": "large"}, {"a", "c"}),
        ({"owner": "carol"}, {"a"}),
        ({"namespace": "virus"}, {"c"}),
        ({"price_group": "H100/1g.10gb"}, {"b"}),
        ({"window_start_from": "2026-10-05T14:00:00Z"}, set()),
        ({"window_start_before": "2026-10-05T14:00:00Z"}, {"a", "b", "c"}),
    ],
)
def test_usage_is_filtered(
    cast: Cast, client_for: ClientFor, query: dict[str, str], pods: set[str]
) -> None:
    found = results(client_for(cast.frank), "usage-records", **query)

    assert {row["pod_uid"] for row in found} == pods


def test_usage_is_filtered_by_project_and_organization(cast: Cast, client_for: ClientFor) -> None:
    client = client_for(cast.frank)

    by_project = results(client, "usage-records", project=str(cast.vision.pk))
    by_organization = results(client, "usage-records", organization=str(cast.umbrella.pk))
    nowhere = results(client, "usage-records", project=str(cast.umbrella.pk))

    assert (nowhere, [row["pod_uid"] for row in by_project]) == ([], ["b"])
    assert [row["pod_uid"] for row in by_organization] == ["c"]


def test_a_misspelt_filter_is_refused(cast: Cast, client_for: ClientFor) -> None:
    answer = client_for(cast.frank).get(f"{API}/usage-records/", {"sizes": "small"})

    assert answer.status_code == 422
    assert answer.json()["problems"][0]["code"] == "unknown_filter"


def test_only_filters_that_are_asked_for_are_made() -> None:
    asked = UsageRecordFilter(
        {"size": "small", "page_size": "2"}, queryset=UsageRecord.objects.all()
    )

    assert asked.is_valid()
    assert list(asked.filters) == ["size"]
    assert not UsageRecordFilter({"sise": "small"}, queryset=asked.queryset).filters


def test_usage_comes_in_pages(cast: Cast, client_for: ClientFor) -> None:
    client = client_for(cast.frank)
    first = client.get(f"{API}/usage-records/", {"page_size": "2"}).json()
    second = client.get(first["next"]).json()

    uids = [row["pod_uid"] for row in first["results"] + second["results"]]
    assert sorted(uids) == ["a", "b", "c"]
    assert second["next"] is None


def test_a_list_takes_a_fixed_number_of_statements(cast: Cast, client_for: ClientFor) -> None:
    client = client_for(cast.frank)
    client.get(f"{API}/usage-records/")
    for path, statements in (
        ("usage-records", 4),
        ("metering-windows", 5),
        ("metering-exceptions", 4),
        ("capacity-records", 4),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert results(client, path)
        assert len(queries) == statements, path


# ---------------------------------------------------------------- summary


def test_the_summary_adds_up_by_what_is_asked(cast: Cast, client_for: ClientFor) -> None:
    answer = client_for(cast.frank).get(
        f"{API}/usage-summary/", {**RANGE, "group_by": "organization,size,hour"}
    )

    totals = [
        (row["organization"], row["size"], row["bucket_at"], row["unit_seconds"], row["records"])
        for row in answer.json()["totals"]
    ]
    acme, umbrella = str(cast.acme.pk), str(cast.umbrella.pk)
    assert sorted(totals) == sorted(
        [
            (acme, "large", "2026-10-05T13:00:00Z", 7200, 1),
            (acme, "small", "2026-10-05T13:00:00Z", 3600, 1),
            (umbrella, "large", "2026-10-05T13:00:00Z", 3600, 1),
        ]
    )
    assert answer.json()["totals"][0]["project"] is None


def test_the_summary_is_narrowed_to_a_project(cast: Cast, client_for: ClientFor) -> None:
    query = {**RANGE, "group_by": "size", "project": str(cast.vision.pk)}

    [total] = client_for(cast.frank).get(f"{API}/usage-summary/", query).json()["totals"]

    assert (total["size"], total["unit_seconds"], total["busy_ratio"]) == ("small", 3600, None)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({}, 422, "invalid_input"),
        ({**RANGE, "group_by": "colour"}, 422, "invalid_input"),
        ({**RANGE, "colour": "red"}, 422, "invalid_input"),
        (
            {**RANGE, "window_start_before": "2026-10-05T00:00:00Z"},
            422,
            "metering_summary_range",
        ),
        (
            {**RANGE, "window_start_before": "2028-10-05T00:00:00Z"},
            422,
            "metering_summary_range",
        ),
    ],
)
def test_a_summary_that_cannot_be_is_refused(
    cast: Cast, client_for: ClientFor, query: dict[str, str], status: int, code: str
) -> None:
    answer = client_for(cast.frank).get(f"{API}/usage-summary/", query)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
