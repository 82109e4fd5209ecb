"""Decisions over REST: any hour over its patience, ranges of hours, and what they hold for."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from metering.domain.policy import DEFAULT_POLICY, GapPolicy, MeteringPolicy
from metering.models import ExceptionState, MeteringException, MeteringWindow, UsageRecord
from metering.protocols import Observation
from metering.services.exceptions import report_waiting_windows
from metering.services.sweeping import Sweep, Worker, meter_due
from metering.services.windows import claim_windows, open_due_windows
from tenants.models import AuditEntry, Cluster
from tests.builders import bind, make_cluster
from tests.cast import Cast, make_cast
from tests.metering.api.doors import API, Door, results
from tests.metering.seen import HOUR, ReplayedSource, moment, observation, pod, ticks, worker

pytestmark = pytest.mark.django_db

Answer = Any
"""The test client's response, with `json`."""
LATE = HOUR + timedelta(days=3)


@pytest.fixture
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def frank(cast: Cast, door: Door) -> APIClient:
    return door(cast.frank)


@pytest.fixture
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


def source(metering: Worker) -> ReplayedSource:
    assert isinstance(metering.source, ReplayedSource)
    return metering.source


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


def post(client: APIClient, path: str, body: dict[str, object]) -> Answer:
    return client.post(f"{API}/metering-windows/{path}/", body, format="json")


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
    told = preview.json()
    assert (told["hours"], told["decided"]) == (48, 48)
    assert told["results"] == {"decided": 48}
    assert told["causes"] == {"source_unavailable": 48}
    assert told["first_at"] == "2026-10-05T13:00:00Z"
    assert told["last_at"] == "2026-10-07T12:00:00Z"
    assert told["effect"].startswith("They are sealed with no usage")
    assert states() == {"open": 71}

    body = ranged(cluster, 48, decision="waive", note="Gone.", shown_digest=told["digest"])
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
    told = post(frank, "preview-decision", ranged(cluster, 48, decision="waive")).json()
    MeteringWindow.objects.filter(start_at=HOUR).update(state="gap", shown={"digest": "new"})

    answer = post(
        frank,
        "decide-range",
        ranged(cluster, 48, decision="waive", note="Gone.", shown_digest=told["digest"]),
    )

    assert (answer.status_code, answer.json()["code"]) == (412, "metering_window_changed")
    assert not AuditEntry.objects.filter(action="metering:window:waive").exists()


@pytest.mark.usefixtures("gone")
def test_a_range_is_the_platforms_and_has_an_end(
    cast: Cast, door: Door, frank: APIClient, cluster: Cluster
) -> None:
    body = ranged(cluster, 48, decision="waive", note="Gone.")

    assert post(door(cast.alice), "decide-range", body).status_code == 404
    assert post(door(cast.ann), "decide-range", body).status_code == 403
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


# ---------------------------------------------------------------- what a decision holds for


def half(*, begin: int = 1800) -> Observation:
    return observation(pod("a"), pod("b"), ticks=ticks(begin=begin))


@pytest.fixture
def blinking(cluster: Cluster) -> Worker:
    """A worker that observed the second half of HOUR, after three days."""
    assert cluster.slug
    metering = worker(half())
    meter_due(worker=metering, at=LATE)
    return metering


def gap() -> MeteringWindow:
    return MeteringWindow.objects.get(start_at=HOUR)


def meter(metering: Worker) -> Sweep:
    """Meter the hour now: the API has decided now, and not when the hour was LATE."""
    MeteringWindow.objects.filter(start_at=HOUR).update(not_before=LATE)
    return meter_due(worker=metering, at=LATE)


def accept(client: APIClient, **fields: object) -> Answer:
    return post(client, f"{gap().pk}/decide", {"decision": "accept", "note": "Known.", **fields})


def test_what_accepting_a_gap_would_bill_is_shown(frank: APIClient, blinking: Worker) -> None:
    assert blinking.name

    shown = frank.get(f"{API}/metering-windows/{gap().pk}/").json()["shown"]

    digest = shown.pop("digest")
    assert shown == {
        "observed_ticks": 60,
        "unobserved_seconds": 1777,
        "watch_coverage": None,
        "pods": 2,
        "unit_seconds": 7200,
    }
    assert len(digest) == 64
    assert accept(frank, shown_digest="0" * 64).json()["code"] == "metering_window_changed"
    answer = accept(frank, shown_digest=digest)
    assert (answer.status_code, answer.json()["decided_on"]["digest"]) == (200, digest)


@pytest.mark.parametrize("decision", ["accept", "last_known", "hold"])
def test_an_hour_of_which_less_is_observed_than_was_shown_returns_to_the_person(
    frank: APIClient, blinking: Worker, decision: str
) -> None:
    post(frank, f"{gap().pk}/decide", {"decision": decision, "note": "60 of 120 is enough."})
    source(blinking).seen[HOUR] = observation(ticks=ticks(begin=3570))

    meter(blinking)

    assert (gap().state, gap().gap_policy, gap().decided_on) == ("gap", "", {})
    assert not UsageRecord.objects.exists()
    found = MeteringException.objects.get(window=gap(), kind="low_coverage")
    assert found.state == ExceptionState.OPEN
    assert "Scrapes observed: 60 when it was decided, 1 now." in found.summary
    assert "Pods: 2 when it was decided, 0 now." in found.summary
    assert meter(blinking).is_idle

    accept(frank)
    meter(blinking)
    assert (gap().state, gap().record_count) == ("sealed", 0)


def test_the_settings_do_not_decide_anew_on_what_was_returned(
    frank: APIClient, blinking: Worker
) -> None:
    accept(frank)
    source(blinking).seen[HOUR] = observation(ticks=ticks(begin=3570))
    policy = type(DEFAULT_POLICY)(gap_policy=GapPolicy.ACCEPT)
    waiting = Worker("w", blinking.source, blinking.actor, policy)

    meter(waiting)

    assert (gap().state, gap().gap_policy) == ("gap", "")


def test_one_pod_fewer_returns_the_hour_though_as_many_scrapes_took_place(
    frank: APIClient, blinking: Worker
) -> None:
    accept(frank)
    source(blinking).seen[HOUR] = observation(pod("a"), ticks=ticks(begin=1800))

    meter(blinking)

    found = MeteringException.objects.get(window=gap(), kind="low_coverage")
    assert (gap().state, found.state) == ("gap", "open")
    assert "Pods: 2 when it was decided, 1 now. Unit-seconds: 7200" in found.summary


@pytest.mark.parametrize("begin", [1800, 900, -120])
def test_an_hour_of_which_as_much_or_more_is_observed_is_sealed(
    frank: APIClient, blinking: Worker, begin: int
) -> None:
    accept(frank)
    source(blinking).seen[HOUR] = half(begin=begin)

    meter(blinking)

    assert (gap().state, gap().record_count) == ("sealed", 2)
    assert gap().decided_on["observed_ticks"] == 60


@pytest.mark.parametrize("decision", ["accept", "hold"])
def test_a_decision_waits_for_a_source_that_is_away_and_holds_when_it_is_back(
    frank: APIClient, blinking: Worker, decision: str
) -> None:
    post(frank, f"{gap().pk}/decide", {"decision": decision, "note": "Known."})
    source(blinking).down = "timeout"
    meter(blinking)
    assert (gap().state, gap().gap_policy) == ("open", decision)
    assert MeteringException.objects.filter(window=gap(), state="open").count() == 1

    source(blinking).down = ""
    source(blinking).seen[HOUR] = observation(ticks=ticks(begin=3570))
    meter(blinking)

    assert gap().state == "gap"


def test_a_decision_changed_while_the_source_is_away_holds_for_what_was_shown(
    frank: APIClient, blinking: Worker
) -> None:
    accept(frank)
    source(blinking).down = "timeout"
    meter(blinking)
    post(frank, f"{gap().pk}/decide", {"decision": "hold", "note": "Or rather not."})
    accept(frank)
    source(blinking).down = ""
    source(blinking).seen[HOUR] = observation(ticks=ticks(begin=3570))

    meter(blinking)

    assert (gap().state, gap().record_count, gap().sealed_at) == ("gap", 0, None)
    found = MeteringException.objects.get(window=gap(), kind="low_coverage")
    assert (found.state, "60 when it was decided, 1 now" in found.summary) == ("open", True)


def test_a_decision_made_again_after_workers_died_holds_for_what_was_shown(
    frank: APIClient, blinking: Worker
) -> None:
    accept(frank)
    expired = MeteringPolicy(lease_seconds=-1)
    MeteringWindow.objects.filter(start_at=HOUR).update(not_before=HOUR)
    for _ in range(expired.attempts_max + 1):
        claim_windows(worker="dead", limit=1, at=LATE, policy=expired)
    assert gap().state == "quarantined"
    accept(frank)
    source(blinking).seen[HOUR] = observation(ticks=ticks(begin=3570))

    meter(blinking)

    assert (gap().state, gap().record_count, gap().sealed_at) == ("gap", 0, None)


@pytest.mark.parametrize(
    ("decision", "emptied"), [("hold", ()), ("last_known", (moment(3607), moment(3637)))]
)
def test_an_estimate_decided_on_blindly_is_shown_what_a_returned_source_lost(
    frank: APIClient, gone: Worker, decision: str, emptied: tuple[datetime, ...]
) -> None:
    post(frank, f"{gap().pk}/decide", {"decision": decision, "note": "It is gone."})
    source(gone).down = ""
    source(gone).seen[HOUR] = observation(ticks=emptied)

    meter(gone)

    assert (gap().state, gap().gap_policy, gap().decided_on) == ("gap", "", {})
    found = MeteringException.objects.get(window=gap(), state="open")
    assert (found.kind, gap().shown["observed_ticks"]) == ("low_coverage", 0)
    post(frank, f"{gap().pk}/decide", {"decision": decision, "note": "It lost the hour."})
    meter(gone)
    assert (gap().state, gap().record_count) == ("sealed", 0)


def test_an_estimate_decided_on_blindly_holds_for_an_hour_that_is_observed_whole(
    frank: APIClient, gone: Worker
) -> None:
    post(frank, f"{gap().pk}/decide", {"decision": "last_known", "note": "It is gone."})
    source(gone).down = ""
    source(gone).seen[HOUR] = observation(pod("a"))

    meter(gone)

    assert (gap().state, gap().record_count) == ("sealed", 1)


def test_the_audit_entry_says_what_was_shown(frank: APIClient, blinking: Worker) -> None:
    digest = gap().shown["digest"]

    accept(frank)

    assert blinking.name
    entry = AuditEntry.objects.get(action="metering:window:accept")
    assert entry.facts["shown"]["digest"] == digest
    assert entry.facts["state_before"] == "gap"
