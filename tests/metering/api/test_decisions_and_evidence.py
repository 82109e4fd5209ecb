"""A decision over REST holds for what was shown, and what was never shown comes back."""

from datetime import datetime, timedelta

import pytest
from rest_framework.test import APIClient

from metering.domain.collection.windows import DEFAULT_POLICY, WINDOW, GapPolicy, MeteringPolicy
from metering.models import ExceptionState, MeteringException, MeteringWindow, UsageRecord
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.collection.windows import claim_windows
from tenants.models import AuditEntry, Cluster
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.clients import API, ClientFor
from tests.support.metering.collecting import seal_empty_hours
from tests.support.metering.deciding import (
    LATE,
    RefusedSource,
    accept,
    gap,
    half,
    meter,
    post,
    source,
)
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    WHOLE_H100,
    moment,
    observation,
    pod,
    ticks,
    worker,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


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
    return seal_empty_hours(made, until=LATE)


@pytest.fixture
def gone(cluster: Cluster) -> Worker:
    """A worker whose Prometheus has gone for good, after three days."""
    assert cluster.slug
    metering = worker()
    source(metering).down = "unreachable"
    meter_due(worker=metering, at=LATE)
    return metering


@pytest.fixture
def blinking(cluster: Cluster) -> Worker:
    """A worker that observed the second half of HOUR, after three days."""
    assert cluster.slug
    metering = worker(half())
    meter_due(worker=metering, at=LATE)
    return metering


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
        "billed_unit_seconds": {"large": 7200},
        "held_unit_seconds": {},
        "end_unobserved": False,
    }
    assert len(digest) == 64
    assert accept(frank, shown_digest="0" * 64).json()["code"] == "metering_window_changed"
    answer = accept(frank, shown_digest=digest)
    assert (answer.status_code, answer.json()["decided_on"]["digest"]) == (200, digest)


def test_what_a_gap_bills_by_size_is_shown_apart_from_what_stays_in_exceptions(
    frank: APIClient, cluster: Cluster
) -> None:
    strange = {**WHOLE_H100, "nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"}
    seen = observation(
        pod("a"),
        pod("b", namespace="stray"),
        pod("c", node="strange", labels=strange),
        ticks=ticks(begin=1800),
    )
    meter_due(worker=worker(seen), at=LATE)

    shown = frank.get(f"{API}/metering-windows/{gap().pk}/").json()["shown"]
    hours = {
        "cluster": str(cluster.pk),
        "start_from": HOUR.isoformat(),
        "start_before": (HOUR + WINDOW).isoformat(),
    }
    preview = post(frank, "preview-decision", {**hours, "decision": "accept"}).json()

    held = {"unbound_namespace": 3600, "unknown_device": 3600}
    assert (shown["billed_unit_seconds"], shown["held_unit_seconds"]) == ({"large": 3600}, held)
    assert shown["unit_seconds"] == 10800
    assert preview["billed_unit_seconds"] == {"large": 3600}
    assert preview["held_unit_seconds"] == held
    assert (preview["unknown"], preview["unobserved"]) == (0, 0)


def test_an_hour_after_which_nothing_is_observed_returns_once_and_is_then_refused(
    frank: APIClient, cluster: Cluster
) -> None:
    metering = worker(observation(pod("a"), ticks=ticks(end=1800)))
    meter_due(worker=metering, at=LATE)
    before = gap().shown
    assert (gap().state, before["end_unobserved"]) == ("gap", False)

    assert accept(frank).status_code == 200
    meter(metering)

    found = MeteringException.objects.get(window=gap(), state="open")
    assert found.summary.startswith("The decision of 20")
    assert " UTC (accept) could not be met: " in found.summary
    assert "60 scrapes, 1 pods, " in found.summary
    assert "No scrape took place after the hour." in found.summary
    entry = AuditEntry.objects.get(action="metering:window:return")
    assert entry.facts["decision"] == "accept"
    assert entry.facts["decided_on"]["unit_seconds"] == before["unit_seconds"]
    assert (gap().state, gap().shown["end_unobserved"]) == ("gap", True)

    refused = accept(frank)
    hours = {
        "cluster": str(cluster.pk),
        "start_from": HOUR.isoformat(),
        "start_before": (HOUR + WINDOW).isoformat(),
    }
    preview = post(frank, "preview-decision", {**hours, "decision": "accept"}).json()

    assert (refused.status_code, refused.json()["code"]) == (409, "metering_window_end_unobserved")
    assert "Waive" in str(refused.json())
    assert (preview["decided"], preview["results"]) == (0, {"end_unobserved": 1})
    assert post(frank, f"{gap().pk}/decide", {"decision": "waive", "note": "x"}).status_code == 200


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


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("reason", ["two_clusters", "clock_skew"])
@pytest.mark.parametrize(("decision", "billed", "held"), [("last_known", 3600, 0), ("hold", 0, 1)])
def test_an_hour_whose_answer_is_refused_is_estimated_from_its_neighbours(
    frank: APIClient, reason: str, decision: str, billed: int, held: int
) -> None:
    after = HOUR + timedelta(hours=1)
    ran_on = pod("a", last_seen_at=after + timedelta(minutes=70))
    later = observation(ran_on, start_at=after, end_at=after + WINDOW, ticks=ticks(start_at=after))
    refusing = Worker("w", RefusedSource({after: later}, reason=reason), ACTOR)
    meter_due(worker=refusing, at=LATE)
    assert gap().state == "open"

    post(frank, f"{gap().pk}/decide", {"decision": decision, "note": "Never usable."})
    meter(refusing)
    assert (gap().state, gap().shown["unit_seconds"]) == ("gap", 3600)
    assert "Two clusters, it seems." in gap().last_error
    post(frank, f"{gap().pk}/decide", {"decision": decision, "note": "Never usable."})
    meter(refusing)

    assert gap().state == "sealed"
    usage = UsageRecord.objects.filter(window_start=HOUR)
    assert sum(row.unit_seconds for row in usage) == billed
    assert MeteringException.objects.filter(window=gap(), kind="held_hour").count() == held


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
