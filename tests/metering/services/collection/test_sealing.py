"""A sealed window never changes: not by the service, nor by the runtime role or a superuser."""

import hashlib
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from metering.domain.errors import (
    WindowNotFoundError,
    WindowNotReconciledError,
    WindowSealedError,
)
from metering.models import MeteringException, MeteringWindow, UsageRecord
from metering.selectors.collection.record_digest import capacity_digest
from metering.services.collection.sealing import reconcile_windows, seal_window
from metering.services.collection.sweeping import meter_due, seal_settled
from metering.services.corrections.exceptions import resolve_exception
from tenants.models import AuditEntry
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ACTOR, HOUR, LATER, moment, node, observation, pod, worker
from tests.support.metering.usage_rows import write_record

pytestmark = pytest.mark.django_db

DUE = moment(3600 + LATER)


def meter(*pods: object, **fields: object) -> MeteringWindow:
    """Return the window of HOUR after one sweep over it."""
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    meter_due(worker=worker(observation(*pods, **fields)), at=DUE)  # type: ignore[arg-type]
    return MeteringWindow.objects.get()


def test_the_seal_leaves_the_records_digest_in_the_audit_trail() -> None:
    window = meter(pod("a", units=2), pod("b"))

    entry = AuditEntry.objects.get(action="metering:window:seal")
    assert (window.state, window.sealed_at, window.record_count) == ("sealed", DUE, 2)
    assert entry.object_id == str(window.id)
    assert entry.facts == {
        "cluster": str(window.cluster_id),
        "start_at": "2026-10-05T13:00:00+00:00",
        "records": 2,
        "unit_seconds": 10_800,
        "digest": window.record_digest,
        "capacity_digest": capacity_digest(window.id),
    }
    assert len(window.record_digest) == len(capacity_digest(window.id)) == 64


def test_an_empty_hour_is_sealed_with_the_digest_of_nothing() -> None:
    window = meter()

    assert window.record_digest == hashlib.sha256(b"").hexdigest()


def test_the_digest_does_not_depend_on_the_sessions_zone() -> None:
    window = meter(pod("a"))
    before = window.record_digest

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TimeZone = 'Asia/Kolkata'")
        assert before == _digest_again(window)


def _digest_again(window: MeteringWindow) -> str:
    """Return the digest the seal would compute now."""
    from metering.services.collection.sealing import _SEAL  # noqa: PLC0415 - The very statement.

    inner = _SEAL[_SEAL.index("SELECT count(*)") : _SEAL.index(") d\n")]
    with connection.cursor() as cursor:
        cursor.execute(inner, {"window_id": window.id, "start_at": window.start_at})
        return str(cursor.fetchone()[2])


@pytest.mark.parametrize("state", ["open", "collected", "gap", "quarantined"])
def test_only_a_reconciled_window_is_sealed(state: str) -> None:
    make_cluster(metered_from=HOUR)
    meter_due(worker=worker(), at=HOUR)
    window = MeteringWindow.objects.create(
        cluster=make_cluster("other"), start_at=HOUR, not_before=DUE, state=state
    )

    with pytest.raises(WindowNotReconciledError) as refusal:
        seal_window(window_id=window.id, actor=ACTOR, at=DUE)

    assert refusal.value.code == "metering_window_not_reconciled"
    window.refresh_from_db()
    assert (window.state, window.sealed_at) == (state, None)
    assert not AuditEntry.objects.filter(action="metering:window:seal").exists()


def test_a_window_is_sealed_once() -> None:
    window = meter()

    with pytest.raises(WindowSealedError):
        seal_window(window_id=window.id, actor=ACTOR, at=DUE)

    assert AuditEntry.objects.filter(action="metering:window:seal").count() == 1


def test_a_window_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(WindowNotFoundError):
        seal_window(window_id=0, actor=ACTOR, at=DUE)


def test_exceptions_about_single_pods_do_not_keep_a_window_from_its_seal() -> None:
    window = meter(pod("a", namespace="stray"), pod("b", labels={}))

    assert window.state == "sealed"
    held = MeteringException.objects.order_by("kind").values_list("kind", "held_unit_seconds")
    assert list(held) == [("unbound_namespace", 3600), ("unknown_node", 3600)]


def test_over_capacity_is_sealed_only_after_a_person_accepted_it() -> None:
    window = meter(pod("a", units=6), pod("b", units=6), nodes=(node(),))
    assert window.state == "collected"
    assert seal_settled(worker=worker(), at=DUE).sealed == 0
    assert reconcile_windows(window_ids=[window.id], actor=ACTOR, at=DUE) == []

    [found] = MeteringException.objects.all()
    resolve_exception(exception_id=found.id, note="Two labels, one GPU.", actor=ACTOR, at=DUE)

    assert seal_settled(worker=worker(), at=DUE).sealed == 1
    window.refresh_from_db()
    assert window.state == "sealed"


@pytest.mark.parametrize("seconds", [-60, 3601])
def test_no_revision_lies_outside_its_hour(seconds: int) -> None:
    window = meter(pod("a", units=6), pod("b", units=6), nodes=(node(),))
    record = UsageRecord.objects.filter(pod_uid="a").get()
    record.pk = None
    record.revision, record.unit_seconds = 1, 6 * seconds
    record.end_at = record.begin_at + timedelta(seconds=seconds)

    with pytest.raises(IntegrityError, match="metering_usagerecord_2026_10"), transaction.atomic():
        write_record(record)

    assert window.state == "collected"
    assert list(UsageRecord.objects.values_list("revision", flat=True)) == [0, 0]
