"""Waste, credits, device events and health over REST: what is seen by whom, and who decides."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from metering.models import ClusterHealth, CreditProposal, DeviceEvent, WasteFinding
from tests.support.builders import make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.waste_world import (
    DAY,
    HOUR,
    IDLE,
    WasteWorld,
    correct,
    derive,
    make_catalogue,
    seal,
)

pytestmark = pytest.mark.django_db
API = "/api/v1"
EVERYBODY = ("carol", "bob", "alice", "mallory", "dora", "ann", "frank")


@dataclass(frozen=True)
class Stage:
    """Everybody, an idle pod of LLM and a failed GPU under it."""

    cast: Cast
    world: WasteWorld

    def open(self, name: str) -> APIClient:
        """Return a client signed in as somebody."""
        client = APIClient()
        client.force_login(self.person(name))
        return client

    def person(self, name: str) -> User:
        """Return one of the cast."""
        found: User = getattr(self.cast, name)
        return found

    def rows(self, name: str, path: str) -> list[dict[str, Any]]:
        """Return what somebody is reported."""
        answer = self.open(name).get(f"{API}/{path}")
        assert answer.status_code == 200, answer.content
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    def post(self, name: str, path: str, body: dict[str, str]) -> Any:  # noqa: ANN401 - A response.
        """Return the answer to a decision."""
        return self.open(name).post(
            f"{API}/{path}", body, headers={"Idempotency-Key": f"{name}-{path}"}
        )


@pytest.fixture
def stage() -> Stage:
    """An hour in which LLM's pod idled and its GPU failed after ten minutes."""
    cast = make_cast()
    make_catalogue()
    world = WasteWorld(cast.acme, cast.llm, make_cluster())
    pod = world.hold()
    window = world.window(0)
    world.use(window, pod)
    world.measure(window, pod, IDLE)
    world.fail(window, 600)
    seal(window)
    derive()
    return Stage(cast, world)


# ---------------------------------------------------------------- who sees what


@pytest.mark.parametrize(
    ("path", "seen_by"),
    [
        ("waste-findings/", {"carol", "bob", "alice", "dora", "ann", "frank"}),
        ("credit-proposals/", {"bob", "alice", "dora", "ann", "frank"}),
        ("device-events/", {"dora", "ann", "frank"}),
        ("cluster-health/", {"dora", "ann", "frank"}),
    ],
)
def test_each_list_is_seen_by_those_it_concerns(stage: Stage, path: str, seen_by: set[str]) -> None:
    assert {name for name in EVERYBODY if stage.rows(name, path)} == seen_by


def test_a_finding_shows_what_is_held_and_what_would_serve(stage: Stage) -> None:
    (found,) = stage.rows("carol", "waste-findings/?state=open&rule=idle")

    assert (found["rule"], found["state"], found["owner"]) == ("idle", "open", "carol")
    assert (found["pod_name"], found["price_group"]) == ("trainer-0", "H100/whole")
    assert (found["suggested_units"], found["suggested_price_group"]) == (0, "")
    assert (found["held_unit_seconds"], found["wasted_unit_seconds"]) == (3600, 3600)
    assert found["activity_ratio"] == "0.000000"
    assert found["from_at"] == "2026-10-05T00:00:00Z"
    assert stage.rows("carol", "waste-findings/?rule=low_use") == []


def test_what_is_wasted_is_null_where_nobody_can_say(stage: Stage) -> None:
    WasteFinding.objects.update(
        suggested_units=1, wasted_unit_seconds=0, memory_peak_mebibytes=None
    )

    (unknown,) = stage.rows("carol", "waste-findings/")
    WasteFinding.objects.update(memory_peak_mebibytes=70_000)
    (nothing,) = stage.rows("carol", "waste-findings/")

    assert (unknown["wasted_unit_seconds"], nothing["wasted_unit_seconds"]) == (None, 0)
    assert unknown["held_unit_seconds"] == nothing["held_unit_seconds"] == 3600


def test_a_proposal_carries_its_failure_as_evidence(stage: Stage) -> None:
    (found,) = stage.rows("alice", "credit-proposals/?state=proposed&is_certain=true")

    assert (found["unit_seconds"], found["is_certain"]) == (3000, True)
    assert (found["event_kind"], found["event_code"]) == ("xid", "79")
    assert (found["device"], found["node"]) == ("GPU-trainer-0", "node-1")
    assert found["event_begin_at"] == "2026-10-05T00:10:00Z"


def test_an_event_shows_before_and_after(stage: Stage) -> None:
    (found,) = stage.rows("frank", "device-events/?is_open=true&severity=fail")

    assert (found["kind"], found["code"], found["end_at"]) == ("xid", "79", None)
    assert (found["value_before"], found["value_after"]) == (None, "79.000000")


def test_health_shows_availability_and_nulls(stage: Stage) -> None:
    (found,) = stage.rows("ann", "cluster-health/")

    assert (found["availability"], found["queued_pods"]) == (None, None)
    assert (found["failures"], found["devices"]) == (1, 1)

    ClusterHealth.objects.update(expected_seconds=7200, ready_seconds=7199)
    assert stage.rows("ann", "cluster-health/")[0]["availability"] == "0.99986"


# ---------------------------------------------------------------- who decides


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("bob", 200),
        ("alice", 200),
        ("frank", 200),
        ("carol", 403),
        ("dora", 403),
        ("ann", 403),
        ("mallory", 404),
    ],
)
def test_a_finding_is_dismissed_by_those_who_answer_for_it(
    stage: Stage, name: str, status: int
) -> None:
    finding = WasteFinding.objects.get()

    answer = stage.post(name, f"waste-findings/{finding.pk}/dismiss/", {"reason": "A standby."})

    assert answer.status_code == status
    finding.refresh_from_db()
    done = status == 200
    assert finding.state == ("dismissed" if done else "open")
    assert finding.dismissed_by == (stage.person(name) if done else None)


@pytest.mark.parametrize("verb", ["accept", "dismiss"])
@pytest.mark.parametrize(
    ("name", "status"),
    [("dora", 200), ("frank", 403), ("ann", 403), ("alice", 403), ("bob", 403), ("carol", 404)],
)
def test_a_credit_is_decided_by_finance(stage: Stage, verb: str, name: str, status: int) -> None:
    proposal = CreditProposal.objects.get()

    answer = stage.post(name, f"credit-proposals/{proposal.pk}/{verb}/", {"reason": "XID 79."})

    assert answer.status_code == status
    proposal.refresh_from_db()
    decided = {"accept": "accepted", "dismiss": "dismissed"}[verb]
    assert proposal.state == (decided if status == 200 else "proposed")


def test_a_decision_is_made_once(stage: Stage) -> None:
    proposal = CreditProposal.objects.get()
    stage.post("dora", f"credit-proposals/{proposal.pk}/accept/", {"reason": "XID 79."})

    again = stage.post("dora", f"credit-proposals/{proposal.pk}/dismiss/", {"reason": "No."})

    assert (again.status_code, again.json()["code"]) == (409, "metering_credit_decided")
    assert CreditProposal.objects.get().state == "accepted"


def test_a_credit_of_an_hour_that_was_corrected_meanwhile_is_looked_at_first(stage: Stage) -> None:
    proposal = CreditProposal.objects.get()
    correct(proposal.window, stage.world.held[0], -2000)

    refused = stage.post("dora", f"credit-proposals/{proposal.pk}/accept/", {"reason": "XID 79."})

    assert (refused.status_code, refused.json()["code"]) == (409, "metering_credit_stale")
    assert CreditProposal.objects.get().state == "proposed"
    derive()
    (row,) = stage.rows("dora", "credit-proposals/?state=proposed")
    assert (row["unit_seconds"], row["retracted_unit_seconds"]) == (1600, 0)


@pytest.mark.parametrize("verb", ["accept", "dismiss"])
def test_a_credit_without_usage_is_withdrawn_and_decided_by_nobody(stage: Stage, verb: str) -> None:
    proposal = CreditProposal.objects.get()
    correct(proposal.window, stage.world.held[0], None)
    derive()

    refused = stage.post("dora", f"credit-proposals/{proposal.pk}/{verb}/", {"reason": "XID 79."})

    assert (refused.status_code, refused.json()["code"]) == (409, "metering_credit_withdrawn")
    (row,) = stage.rows("dora", "credit-proposals/?state=withdrawn")
    assert (row["unit_seconds"], row["decided_at"]) == (0, None)
    assert row["reason"] == "Corrections took back the usage that would have been credited."


def test_an_accepted_credit_shows_what_was_taken_back_since(stage: Stage) -> None:
    proposal = CreditProposal.objects.get()
    stage.post("dora", f"credit-proposals/{proposal.pk}/accept/", {"reason": "XID 79."})
    correct(proposal.window, stage.world.held[0], -1600)
    derive()

    (row,) = stage.rows("dora", "credit-proposals/?state=accepted")

    assert (row["unit_seconds"], row["retracted_unit_seconds"]) == (3000, 1000)


def test_a_decision_without_a_key_or_a_reason_is_refused(stage: Stage) -> None:
    proposal = CreditProposal.objects.get()
    path = f"{API}/credit-proposals/{proposal.pk}/accept/"

    without_key = stage.open("dora").post(path, {"reason": "XID 79."})
    without_reason = stage.post("dora", f"credit-proposals/{proposal.pk}/accept/", {})

    assert (without_key.status_code, without_reason.status_code) == (400, 422)
    assert CreditProposal.objects.get().state == "proposed"


@pytest.mark.parametrize(
    ("name", "status"), [("frank", 200), ("dora", 403), ("ann", 403), ("alice", 404)]
)
def test_an_event_is_ended_by_the_platform(stage: Stage, name: str, status: int) -> None:
    event = DeviceEvent.objects.get()

    answer = stage.post(name, f"device-events/{event.pk}/end/", {"note": "Drained."})

    assert answer.status_code == status
    event.refresh_from_db()
    assert (event.end_at is None, event.note) == (
        (False, "Drained.") if status == 200 else (True, "")
    )


@pytest.mark.parametrize(
    "path", ["waste-findings", "credit-proposals", "device-events", "cluster-health"]
)
def test_an_unknown_filter_is_refused(stage: Stage, path: str) -> None:
    assert stage.open("frank").get(f"{API}/{path}/?colour=red").status_code == 422


def test_one_of_each_is_reported_by_its_number(stage: Stage) -> None:
    found = {
        "waste-findings": WasteFinding.objects.get().pk,
        "credit-proposals": CreditProposal.objects.get().pk,
        "device-events": DeviceEvent.objects.get().pk,
    }
    for path, pk in found.items():
        assert stage.open("frank").get(f"{API}/{path}/{pk}/").json()["id"] == pk
        assert stage.open("mallory").get(f"{API}/{path}/{pk}/").status_code == 404


def test_times_narrow_a_list(stage: Stage) -> None:
    after = (DAY + HOUR + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")

    assert len(stage.rows("frank", "device-events/?begin_before=" + after)) == 1
    assert stage.rows("frank", "device-events/?begin_from=" + after) == []
    assert stage.rows("frank", "waste-findings/?until_from=" + after) == []
    assert stage.rows("frank", "credit-proposals/?window_start_from=" + after) == []
    assert stage.rows("frank", "cluster-health/?window_start_from=" + after) == []
