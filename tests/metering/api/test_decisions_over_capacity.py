"""An hour that is metered, but over capacity, is decided on over REST without losing its usage."""

from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from metering.models import MeteringException, UsageRecord
from metering.services.collection.sweeping import Worker, meter_due
from tenants.models import AuditEntry
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.clients import ClientFor
from tests.support.metering.collecting import seal_empty_hours
from tests.support.metering.deciding import LATE, gap, meter, post, source
from tests.support.metering.seen import HOUR, node, observation, pod, worker
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

SIXES = observation(pod("a", units=6), pod("b", units=6), nodes=(node(),))


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def frank(cast: Cast, client_for: ClientFor) -> APIClient:
    return client_for(cast.frank)


@pytest.fixture
def crowded(cast: Cast) -> Worker:
    """A worker that metered 12 units on a node of 8, and whose Prometheus lost them since."""
    cluster = seal_empty_hours(make_cluster(metered_from=HOUR), until=LATE)
    bind(cluster, "team-nlp", cast.llm)
    metering = worker(SIXES)
    meter_due(worker=metering, at=LATE)
    assert (gap().state, gap().record_count) == ("collected", 2)
    source(metering).seen[HOUR] = observation(ticks=())
    return metering


def billed() -> int:
    usage = UsageRecord.objects.filter(window_start=HOUR)
    return sum(record.unit_seconds for record in usage)


@pytest.mark.parametrize("in_force", ["", "accept", "last_known"])
def test_accepting_it_bills_what_is_metered(
    frank: APIClient, crowded: Worker, in_force: str
) -> None:
    window = gap()
    window.gap_policy = in_force
    window.save(update_fields=["gap_policy"])

    body = {"decision": "accept", "note": "Two labels, one GPU."}
    answer = post(frank, f"{gap().pk}/decide", body)

    assert (answer.status_code, answer.json()["state"]) == (200, "reconciled")
    found = MeteringException.objects.get(window=gap())
    assert (found.kind, found.state, found.resolution) == (
        "over_capacity",
        "resolved",
        "Two labels, one GPU.",
    )
    entry = AuditEntry.objects.get(action="metering:window:accept")
    assert (entry.facts["state_before"], entry.facts["state"]) == ("collected", "reconciled")
    meter(crowded)
    assert (gap().state, gap().record_count, billed()) == ("sealed", 2, 43_200)


@pytest.mark.usefixtures("crowded")
def test_nothing_of_it_is_estimated(frank: APIClient) -> None:
    body = {"decision": "last_known", "note": "Why not."}

    answer = post(frank, f"{gap().pk}/decide", body)

    assert (answer.status_code, answer.json()["code"]) == (409, "metering_window_metered")
    assert (gap().state, gap().gap_policy, billed()) == ("collected", "", 43_200)


def test_holding_it_keeps_its_usage_off_the_bill(frank: APIClient, crowded: Worker) -> None:
    source(crowded).seen[HOUR] = SIXES

    post(frank, f"{gap().pk}/decide", {"decision": "hold", "note": "Too much."})
    meter(crowded)

    assert (gap().state, billed()) == ("sealed", 0)
    found = MeteringException.objects.filter(window=gap(), state="open").order_by("subject")
    assert [(one.kind, one.held_unit_seconds) for one in found] == [("held_hour", 21_600)] * 2


@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize(
    ("decision", "result", "state"),
    [("accept", "decided", "reconciled"), ("last_known", "metered", "collected")],
)
def test_a_range_is_decided_on_alike(
    frank: APIClient, decision: str, result: str, state: str
) -> None:
    body = {
        "cluster": str(gap().cluster_id),
        "start_from": HOUR.isoformat(),
        "start_before": (HOUR + timedelta(hours=1)).isoformat(),
        "decision": decision,
    }
    preview = post(frank, "preview-decision", body).json()
    assert preview["results"] == {result: 1}

    decision_body = {**body, "note": "Known.", "shown_digest": preview["digest"]}
    answer = post(frank, "decide-range", decision_body)

    assert [hour["result"] for hour in answer.json()["hours"]] == [result]
    assert (gap().state, billed()) == (state, 43_200)
