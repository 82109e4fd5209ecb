"""Windows, capacity and exceptions over REST: what is seen by whom, and who decides."""

import pytest

from metering.domain.collection.parts import parts_of
from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
    WindowDivision,
)
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.metering.alike import excepted
from tests.support.metering.clients import API, ClientFor, results

TEXT = f"{AT:%Y-%m-%dT%H:%M:%SZ}"

# ---------------------------------------------------------------- windows and capacity


@pytest.mark.parametrize(("name", "count"), [("frank", 2), ("ann", 2), ("alice", 0), ("bob", 0)])
def test_windows_and_capacity_are_the_platforms(
    cast: Cast, client_for: ClientFor, name: str, count: int
) -> None:
    client = client_for(getattr(cast, name))

    assert len(results(client, "metering-windows")) == count
    assert len(results(client, "capacity-records")) == (3 if count else 0)


def test_a_window_shows_how_well_it_was_seen(cast: Cast, client_for: ClientFor) -> None:
    second, first = results(client_for(cast.frank), "metering-windows")

    assert (first["state"], first["coverage"], first["record_count"]) == ("sealed", "1.00000", 3)
    assert (second["state"], second["coverage"]) == ("open", "0.50000")
    assert second["last_error"].startswith("1777 s of this hour were not observed: 14:00:00 to")
    fields = ("unobserved_seconds", "longest_hole_seconds", "hidden_unit_seconds_max")
    assert [first[name] for name in fields] == [0, 0, {}]
    assert [second[name] for name in fields] == [1777, 1777, None]


def test_an_hour_that_is_metered_in_parts_shows_how_far_they_are(
    cast: Cast, client_for: ClientFor
) -> None:
    frank = client_for(cast.frank)
    window = MeteringWindow.objects.get(state="open")
    path = f"{API}/metering-windows/{window.pk}/"
    assert frank.get(path).json()["division"] is None
    division = WindowDivision.objects.create(
        window=window, as_of=AT, not_before=AT, created_at=AT, frame=b"frame"
    )
    for part, state in zip(parts_of(2), ("done", "due", "due"), strict=True):
        division.parts.create(pods=part.text, state=state, observed=b"seen")

    shown = {"phase": "observing", "parts": 3, "done": 1, "as_of": TEXT, "created_at": TEXT}
    assert frank.get(path).json()["division"] == shown
    assert [row["division"] for row in results(frank, "metering-windows")] == [shown, None]

    WindowDivision.objects.update(catalogue_version=1)
    division.parts.update(state="done")
    posting = frank.get(path).json()["division"]
    assert (posting["phase"], posting["parts"], posting["done"]) == ("posting", 3, 3)
    assert frank.post(f"{path}retry/", {}).json()["division"] is None


def test_capacity_adds_up(cast: Cast, client_for: ClientFor) -> None:
    for row in results(client_for(cast.frank), "capacity-records"):
        parts = ("billed_unit_seconds", "held_unit_seconds", "idle_unit_seconds")
        assert row["capacity_unit_seconds"] == sum(row[part] for part in parts)


def test_a_platform_admin_meters_a_window_again(cast: Cast, client_for: ClientFor) -> None:
    window = MeteringWindow.objects.get(state="open")

    answer = client_for(cast.frank).post(
        f"{API}/metering-windows/{window.pk}/retry/", {"note": "Up."}
    )

    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["failures"]) == ("open", 0)
    assert AuditEntry.objects.get(action="metering:window:retry").actor_label == "frank"


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("ann", 403, "forbidden"), ("alice", 404, "not_found"), ("mallory", 404, "not_found")],
)
def test_others_decide_nothing_about_windows(
    cast: Cast, client_for: ClientFor, name: str, status: int, code: str
) -> None:
    window = MeteringWindow.objects.get(state="open")
    client = client_for(getattr(cast, name))

    for verb, body in (("retry", {}), ("decide", {"decision": "waive", "note": "x"})):
        answer = client.post(f"{API}/metering-windows/{window.pk}/{verb}/", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)

    window.refresh_from_db()
    assert (window.state, window.failures) == ("open", 1)


def test_a_gap_is_waived_over_rest(cast: Cast, client_for: ClientFor) -> None:
    window = MeteringWindow.objects.get(state="open")
    MeteringWindow.objects.filter(pk=window.pk).update(state="gap")

    answer = client_for(cast.frank).post(
        f"{API}/metering-windows/{window.pk}/decide/", {"decision": "waive", "note": "Outage."}
    )

    assert (answer.status_code, answer.json()["state"]) == (200, "reconciled")


def test_a_sealed_window_is_not_retried(cast: Cast, client_for: ClientFor) -> None:
    window = MeteringWindow.objects.get(state="sealed")

    answer = client_for(cast.frank).post(f"{API}/metering-windows/{window.pk}/retry/", {})

    assert (answer.status_code, answer.json()["code"]) == (409, "metering_window_sealed")
    window.refresh_from_db()
    assert window.state == "sealed"


# ---------------------------------------------------------------- exceptions


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("frank", ["low_coverage", "unbound_namespace", "unknown_node", "unknown_node"]),
        ("alice", ["unknown_node"]),
        ("bob", ["unknown_node"]),
        ("mallory", []),
    ],
)
def test_a_tenant_sees_the_exceptions_about_its_own_namespaces(
    cast: Cast, client_for: ClientFor, name: str, kinds: list[str]
) -> None:
    found = results(client_for(getattr(cast, name)), "metering-exceptions")

    assert sorted(row["kind"] for row in found) == kinds


def test_an_exception_shows_cause_and_remedy_and_is_resolved_once(
    cast: Cast, client_for: ClientFor
) -> None:
    client = client_for(cast.frank)
    [found] = results(client, "metering-exceptions", kind="unbound_namespace", state="open")
    assert found["summary"] == "Namespace stray belongs to no project at that time."
    assert found["remedy"].startswith("Bind the namespace to a project")
    assert found["held_unit_seconds"] == 3600
    path = f"{API}/metering-exceptions/{found['id']}/resolve/"

    resolved = client.post(path, {"note": "A test namespace."})
    again = client.post(path, {"note": "A test namespace."})

    assert (resolved.status_code, resolved.json()["state"]) == (200, "resolved")
    assert resolved.json()["resolution"] == "A test namespace."
    assert (again.status_code, again.json()["code"]) == (409, "metering_exception_resolved")
    assert AuditEntry.objects.filter(action="metering:exception:resolve").count() == 1


def test_a_reason_is_asked_for(cast: Cast, client_for: ClientFor) -> None:
    found = MeteringException.objects.get(kind="unbound_namespace")
    path = f"{API}/metering-exceptions/{found.pk}/resolve/"

    for body in ({}, {"note": ""}, {"note": "x", "state": "resolved"}):
        assert client_for(cast.frank).post(path, body).status_code == 422

    found.refresh_from_db()
    assert found.state == ExceptionState.OPEN


def test_a_tenant_resolves_nothing(cast: Cast, client_for: ClientFor) -> None:
    found = MeteringException.objects.get(kind="unknown_node", namespace="llm")
    path = f"{API}/metering-exceptions/{found.pk}/resolve/"

    seen = client_for(cast.bob).post(path, {"note": "Mine."})
    unseen = client_for(cast.mallory).post(path, {"note": "Mine."})

    assert (seen.status_code, unseen.status_code) == (403, 404)
    found.refresh_from_db()
    assert found.state == ExceptionState.OPEN


def test_the_evidence_of_one_source_is_accepted_over_rest(
    cast: Cast, client_for: ClientFor
) -> None:
    client = client_for(cast.frank)
    [found] = results(client, "metering-exceptions", kind="low_coverage", state="open")
    path = f"{API}/metering-exceptions/{found['id']}/accept-evidence/"
    asked = {"side": "prometheus", "note": "The job's log says so."}

    refused = client.post(path, asked)
    assert (refused.status_code, refused.json()["code"]) == (409, "metering_exception_not_sided")
    odd = client.post(path, {**asked, "side": "both"})
    assert odd.status_code == 422
    sided = excepted(
        MeteringException.objects.get(pk=found["id"]).window, "differs", subject="uid gpu"
    )

    answer = client.post(path.replace(str(found["id"]), str(sided.pk)), asked)

    assert (answer.status_code, answer.json()["state"]) == (200, "resolved")
    kept = ReconciliationDecision.objects.get()
    assert (kept.side, kept.pod_uid, kept.resource) == ("prometheus", "uid", "gpu")
    assert kept.note == "The job's log says so."
