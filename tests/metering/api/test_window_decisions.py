"""Decisions over REST: any hour over its patience, ranges of hours, and what they hold for."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from metering.models import ExceptionState, MeteringException, MeteringWindow
from metering.services.collection.sweeping import Worker, meter_due, report_waiting_windows
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.models import AuditEntry, Cluster
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.clients import ClientFor, results
from tests.support.metering.deciding import LATE, post, source
from tests.support.metering.seen import HOUR, worker
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

METERED: dict[str, object] = {"state": "collected"}


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def frank(cast: Cast, client_for: ClientFor) -> APIClient:
    return client_for(cast.frank)


@shared_rows
def cluster(cast: Cast) -> Cluster:
    made = make_cluster(metered_from=HOUR)
    bind(made, "team-nlp", cast.llm)
    return made


@pytest.fixture
def gone(cluster: Cluster) -> Worker:
    """A worker whose Prometheus has gone for good, after three days."""
    assert cluster.slug
    metering = worker()
    source(metering).down = "unreachable"
    meter_due(worker=metering, at=LATE)
    return metering


def states() -> dict[str, int]:
    found: dict[str, int] = {}
    for state in MeteringWindow.objects.values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found


def ranged(cluster: Cluster, hours: int, **fields: object) -> dict[str, object]:
    return {
        "cluster": str(cluster.pk),
        "start_from": HOUR.isoformat(),
        "start_before": (HOUR + timedelta(hours=hours)).isoformat(),
        **fields,
    }


# ---------------------------------------------------------------- a source that is gone for good


def test_an_hour_whose_prometheus_is_gone_is_waived_and_sealed(
    frank: APIClient, gone: Worker
) -> None:
    window = MeteringWindow.objects.get(start_at=HOUR)
    assert window.state == "open"

    answer = post(frank, f"{window.pk}/decide", {"decision": "waive", "note": "Gone for good."})

    assert (answer.status_code, answer.json()["state"]) == (200, "reconciled")
    meter_due(worker=gone, at=LATE)
    window.refresh_from_db()
    assert (window.state, window.record_count) == ("sealed", 0)
    assert not MeteringException.objects.filter(window=window, state="open").exists()


@pytest.mark.usefixtures("gone")
def test_an_hour_that_is_not_over_its_patience_is_left_to_the_workers(frank: APIClient) -> None:
    window = MeteringWindow.objects.latest("start_at")
    MeteringWindow.objects.filter(pk=window.pk).update(start_at=recent_hour())

    answer = post(frank, f"{window.pk}/decide", {"decision": "waive", "note": "Now."})

    assert (answer.status_code, answer.json()["code"]) == (409, "metering_window_not_overdue")
    window.refresh_from_db()
    assert (window.state, window.gap_policy) == ("open", "")


def recent_hour() -> datetime:
    now = datetime.now(tz=HOUR.tzinfo)
    return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)


def test_a_range_is_previewed_decided_once_and_sealed(
    frank: APIClient, cluster: Cluster, gone: Worker
) -> None:
    preview = post(frank, "preview-decision", ranged(cluster, 48, decision="waive"))

    assert preview.status_code == 200, preview.content
    reported = preview.json()
    assert (reported["hours"], reported["decided"]) == (48, 48)
    assert reported["results"] == {"decided": 48}
    assert reported["causes"] == {"source_unavailable": 48}
    assert reported["first_at"] == "2026-10-05T13:00:00Z"
    assert reported["last_at"] == "2026-10-07T12:00:00Z"
    assert reported["effect"].startswith("They are sealed with no usage")
    assert states() == {"open": 71}

    body = ranged(cluster, 48, decision="waive", note="Gone.", shown_digest=reported["digest"])
    answer = post(frank, "decide-range", body)

    assert answer.status_code == 200, answer.content
    assert {hour["result"] for hour in answer.json()["hours"]} == {"decided"}
    assert answer.json()["hours"][0]["start_at"] == "2026-10-05T13:00:00Z"
    entries = AuditEntry.objects.filter(action="metering:window:waive")
    assert (entries.count(), {entry.actor_label for entry in entries}) == (48, {"frank"})
    assert {entry.facts["note"] for entry in entries} == {"Gone."}

    again = post(frank, "decide-range", {**body, "shown_digest": ""})

    assert {hour["result"] for hour in again.json()["hours"]} == {"already_decided"}
    assert AuditEntry.objects.filter(action="metering:window:waive").count() == 48
    meter_due(worker=gone, at=LATE)
    assert states() == {"sealed": 48, "open": 23}


@pytest.mark.usefixtures("gone")
def test_a_range_decision_costs_the_same_for_few_hours_and_many(
    frank: APIClient, cluster: Cluster
) -> None:
    costs = []
    for hours in (2, 60):
        with CaptureQueriesContext(connection) as queries:
            answer = post(
                frank, "decide-range", ranged(cluster, hours, decision="accept", note="x")
            )
        assert answer.status_code == 200
        costs.append(len(queries))

    assert costs[0] == costs[1]


@pytest.mark.usefixtures("gone")
def test_a_preview_that_has_changed_is_refused(frank: APIClient, cluster: Cluster) -> None:
    reported = post(frank, "preview-decision", ranged(cluster, 48, decision="waive")).json()
    MeteringWindow.objects.filter(start_at=HOUR).update(state="gap", shown={"digest": "new"})

    answer = post(
        frank,
        "decide-range",
        ranged(cluster, 48, decision="waive", note="Gone.", shown_digest=reported["digest"]),
    )

    assert (answer.status_code, answer.json()["code"]) == (412, "metering_window_changed")
    assert not AuditEntry.objects.filter(action="metering:window:waive").exists()


@pytest.mark.usefixtures("gone")
@pytest.mark.parametrize("change", [{"state": "gap", "shown": {"digest": "new"}}, METERED])
def test_an_hour_that_changes_while_others_are_decided_on_is_left_alone(
    frank: APIClient, cluster: Cluster, change: dict[str, object]
) -> None:
    reported = post(frank, "preview-decision", ranged(cluster, 48, decision="waive")).json()
    late = MeteringWindow.objects.filter(start_at=HOUR + timedelta(hours=40))

    def change_before_the_lock(execute: Callable[..., object], sql: str, *rest: object) -> object:
        if "FOR NO KEY UPDATE" in sql:
            late.update(**change)
        return execute(sql, *rest)

    with connection.execute_wrapper(change_before_the_lock):
        answer = post(
            frank,
            "decide-range",
            ranged(cluster, 48, decision="waive", note="Gone.", shown_digest=reported["digest"]),
        )

    assert answer.status_code == 200, answer.content
    results = [hour["result"] for hour in answer.json()["hours"]]
    assert (results[40], results.count("decided")) == ("changed", 47)
    assert (late.get().state, late.get().gap_policy) == (change["state"], "")
    assert AuditEntry.objects.filter(action="metering:window:waive").count() == 47


@pytest.mark.usefixtures("gone")
def test_a_range_is_the_platforms_and_has_an_end(
    cast: Cast, client_for: ClientFor, frank: APIClient, cluster: Cluster
) -> None:
    body = ranged(cluster, 48, decision="waive", note="Gone.")

    assert post(client_for(cast.alice), "decide-range", body).status_code == 404
    assert post(client_for(cast.ann), "decide-range", body).status_code == 403
    assert post(frank, "decide-range", {**body, "note": ""}).status_code == 422
    assert post(frank, "decide-range", ranged(cluster, 9_000, decision="waive", note="x")).json()[
        "code"
    ] == ("invalid_input")
    assert states() == {"open": 71}


def test_a_decision_takes_an_overdue_hour_from_the_worker_that_has_it(
    frank: APIClient, gone: Worker
) -> None:
    [claimed] = claim_windows(worker="slow", limit=1, at=LATE + timedelta(hours=1))
    answer = post(frank, f"{claimed.id}/decide", {"decision": "waive", "note": "Gone."})

    assert (answer.status_code, answer.json()["state"]) == (200, "reconciled")
    meter_due(worker=gone, at=LATE)
    assert MeteringWindow.objects.get(pk=claimed.id).state == "sealed"


def test_an_overdue_hour_that_nobody_reports_on_is_in_the_queue(
    frank: APIClient, cluster: Cluster
) -> None:
    assert cluster.slug
    open_due_windows(at=LATE)
    report_waiting_windows(at=LATE)
    found = results(frank, "metering-exceptions", kind="overdue", state="open")

    old = MeteringWindow.objects.filter(start_at__lte=LATE - timedelta(hours=25)).count()
    assert MeteringException.objects.filter(kind="overdue", state="open").count() == old == 48
    assert found[0]["summary"] == "The hour was not metered."

    MeteringException.objects.update(state=ExceptionState.RESOLVED, resolution="Seen.")
    report_waiting_windows(at=LATE)
    assert MeteringException.objects.filter(kind="overdue", state="open").count() == 48

    meter_due(worker=worker(), at=LATE)
    assert states() == {"sealed": 71}
    assert not MeteringException.objects.filter(state="open").exists()
