"""Usage corrections over REST: who asks and decides, what is refused, and what is then reported."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import override_settings

from metering.models import MeteringWindow, UsageCorrection, UsageRecord, WindowRecheck
from tenants.domain.identity.roles import Role
from tests.support.builders import grant, make_user
from tests.support.cast import Cast
from tests.support.metering.clients import API, RANGE, ClientFor, results
from tests.support.metering.usage_rows import write_record
from tests.support.tenants.clients import problem


def record_of(slug: str) -> UsageRecord:
    return UsageRecord.objects.filter(project__slug=slug).earliest("revision")


@pytest.fixture
def ask(cast: Cast, client_for: ClientFor) -> Any:  # noqa: ANN401 - A function with keywords.
    """Return a function that posts a correction of LLM's record as somebody."""

    def post(name: str = "frank", key: str = "k1", **body: object) -> HttpResponse:
        given: dict[str, object] = {
            "record": record_of("llm").pk,
            "unit_seconds": -600,
            "reason": "The node was broken.",
            **body,
        }
        return client_for(getattr(cast, name)).post(
            f"{API}/usage-corrections/",
            {name: value for name, value in given.items() if value is not None},
            headers={"Idempotency-Key": key} if key else {},
        )

    return post


def nothing_changed() -> bool:
    return not UsageCorrection.objects.exists() and not UsageRecord.objects.filter(revision=1)


def test_a_platform_admin_asks_and_another_one_approves(
    cast: Cast,
    client_for: ClientFor,
    ask: Any,  # noqa: ANN401 - A fixture.
) -> None:
    asked = ask()

    body = asked.json()
    assert asked.status_code == 201
    assert asked["Location"] == f"{API}/usage-corrections/{body['id']}/"
    assert (body["state"], body["cause"], body["unit_seconds"]) == ("proposed", "manual", -600)
    assert (body["requested_by"], body["decided_by"], body["version"]) == ("frank", "", 1)
    assert body["records"] == [
        {
            "pod_uid": "a",
            "pod_name": "pod-a",
            "namespace": "llm",
            "resource": "nvidia.com/gpu",
            "basis": 7200,
            "unit_seconds": -600,
        }
    ]
    grant(second := make_user("faye"), Role.PLATFORM_ADMIN)

    approved = client_for(second).post(
        f"{API}/usage-corrections/{body['id']}/approve/",
        {"note": "Seen."},
        headers={"Idempotency-Key": "k2"},
    )

    assert (approved.status_code, approved.json()["state"]) == (200, "posted")
    assert (approved.json()["decided_by"], approved["ETag"]) == ("faye", '"2"')
    records = results(client_for(cast.alice), "usage-records", **RANGE, pod_uid="a")
    assert [(r["revision"], r["unit_seconds"], r["correction"]) for r in records] == [
        (1, -600, body["id"]),
        (0, 7200, None),
    ]
    listed = results(client_for(cast.alice), "usage-records", **RANGE, correction=body["id"])
    assert [r["revision"] for r in listed] == [1]
    summary = client_for(cast.alice).get(f"{API}/usage-summary/", {**RANGE, "group_by": "project"})
    sums = {row["project"]: row["unit_seconds"] for row in summary.json()["totals"]}
    assert sums[str(cast.llm.pk)] == 6600


def test_who_asked_does_not_approve(cast: Cast, client_for: ClientFor, ask: Any) -> None:  # noqa: ANN401
    made = ask().json()["id"]

    answer = client_for(cast.frank).post(
        f"{API}/usage-corrections/{made}/approve/", {}, headers={"Idempotency-Key": "k2"}
    )

    assert problem(answer) == (403, "usage_correction_needs_four_eyes")
    assert UsageCorrection.objects.get().state == "proposed"


@override_settings(FOUR_EYES=False)
def test_without_four_eyes_it_is_posted_at_once(ask: Any) -> None:  # noqa: ANN401

    body = ask(unit_seconds=None, retract=True).json()

    assert (body["state"], body["cause"], body["unit_seconds"]) == ("posted", "retraction", -7200)


def test_a_key_is_answered_once_and_stands_for_one_request(ask: Any) -> None:  # noqa: ANN401
    first = ask()

    again = ask()

    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Idempotent-Replayed"] == "true"
    assert problem(ask(unit_seconds=-1)) == (422, "idempotency_key_reused")
    assert UsageCorrection.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"unit_seconds": 0}, 422, "usage_correction_empty"),
        ({"unit_seconds": -7201}, 409, "usage_correction_below_zero"),
        ({"unit_seconds": 10**9}, 422, "usage_correction_too_large"),
        ({"unit_seconds": 10**13}, 422, "invalid_input"),
        ({"unit_seconds": "1.5"}, 422, "invalid_input"),
        ({"unit_seconds": None}, 422, "invalid_input"),
        ({"retract": True}, 422, "invalid_input"),
        ({"reason": ""}, 422, "invalid_input"),
        ({"reason": "  "}, 422, "invalid_input"),
        ({"reason": None}, 422, "invalid_input"),
        ({"record": 10**9}, 404, "not_found"),
        ({"record": "x"}, 422, "invalid_input"),
        ({"record": -1}, 422, "invalid_input"),
        ({"state": "posted"}, 422, "invalid_input"),
        ({"key": ""}, 400, "idempotency_key_required"),
    ],
    ids=str,
)
def test_bad_input_is_refused_and_changes_nothing(
    ask: Any,  # noqa: ANN401 - As above.
    body: dict[str, Any],
    status: int,
    code: str,
) -> None:
    answer = ask(**body)

    assert problem(answer) == (status, code)
    assert nothing_changed()


@pytest.mark.parametrize(
    ("name", "slug", "status"),
    [
        ("alice", "llm", 403),
        ("bob", "llm", 403),
        ("dora", "llm", 403),
        ("ann", "llm", 403),
        ("alice", "virus", 404),
        ("mallory", "llm", 404),
    ],
)
def test_others_correct_nothing_and_foreign_records_do_not_exist(
    ask: Any,  # noqa: ANN401 - As above.
    name: str,
    slug: str,
    status: int,
) -> None:
    answer = ask(name, record=record_of(slug).pk)

    assert answer.status_code == status
    assert nothing_changed()


def test_an_hour_that_is_not_sealed_says_to_meter_it_again(cast: Cast, ask: Any) -> None:  # noqa: ANN401
    del cast
    record = record_of("llm")
    window = MeteringWindow.objects.get(state="open")
    write_record(_unsealed(record, window))

    answer = ask(record=UsageRecord.objects.latest("pk").pk)

    assert problem(answer) == (409, "metering_window_not_sealed")
    assert answer.json()["remedy"].startswith("Meter the window again")
    assert not UsageCorrection.objects.exists()


def _unsealed(record: UsageRecord, window: MeteringWindow) -> UsageRecord:
    """Return the record as one of an hour that is still open."""
    moved = window.start_at - record.window_start
    record.pk, record.pod_uid, record.window = None, "open", window
    record.window_start = window.start_at
    record.begin_at, record.end_at = record.begin_at + moved, record.end_at + moved
    return record


def test_a_rejection_needs_a_reason_and_is_final(
    cast: Cast,
    client_for: ClientFor,
    ask: Any,  # noqa: ANN401 - A fixture.
) -> None:
    address = f"{API}/usage-corrections/{ask().json()['id']}/reject/"
    frank = client_for(cast.frank)

    assert problem(frank.post(address, {})) == (422, "invalid_input")
    assert frank.post(address, {"note": "It was not."}).json()["state"] == "rejected"

    assert problem(frank.post(address, {"note": "No."})) == (409, "usage_correction_decided")


def test_corrections_are_seen_by_who_sees_the_usage(
    cast: Cast,
    client_for: ClientFor,
    ask: Any,  # noqa: ANN401 - A fixture.
) -> None:
    ask()

    for name, count in (("carol", 1), ("alice", 1), ("ann", 1), ("mallory", 0)):
        seen = results(client_for(getattr(cast, name)), "usage-corrections", state="proposed")
        assert len(seen) == count, name
    assert results(client_for(cast.ann), "usage-corrections", cause="late_data") == []


def test_a_sealed_hour_is_looked_at_again_on_demand(cast: Cast, client_for: ClientFor) -> None:
    sealed = MeteringWindow.objects.get(state="sealed")
    frank = client_for(cast.frank)

    with override_settings(RECHECK_RETENTION_SECONDS=86_400):
        answer = frank.post(f"{API}/metering-windows/{sealed.pk}/recheck/", {"note": "Late."})

    assert problem(answer) == (409, "metering_window_too_old")
    with override_settings(RECHECK_RETENTION_SECONDS=10**9):
        answer = frank.post(f"{API}/metering-windows/{sealed.pk}/recheck/", {"note": "Late."})
    assert (answer.status_code, answer.json()["state"]) == (200, "sealed")
    assert WindowRecheck.objects.get().note == "Late."
    unsealed = MeteringWindow.objects.get(state="open")
    answer = frank.post(f"{API}/metering-windows/{unsealed.pk}/recheck/", {})
    assert problem(answer) == (409, "metering_window_not_sealed")
    assert WindowRecheck.objects.count() == 1
