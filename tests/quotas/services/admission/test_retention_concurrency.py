"""Retention beside those who work: nobody waits for it, and it waits for nobody."""

from datetime import timedelta

import psycopg
import pytest

from embedded.postgres import APP, EmbeddedPostgres
from quotas.models import Reservation
from quotas.services.admission.retention import purge_reservations
from tenants.domain.actors import system_actor
from tenants.models import Notification, NotificationDelivery
from tenants.services import retention
from tenants.services.retention import purge_notifications
from tests.support.builders import AT, make_cluster
from tests.support.cast import make_cast
from tests.support.quotas.builders import make_reservation

KEPT = timedelta(days=90)
OLD = AT - 2 * KEPT
ACTOR = system_actor("tests")


def test_what_somebody_is_at_is_passed_over_and_purged_later(
    postgres: EmbeddedPostgres, committed_db: str
) -> None:
    cast, cluster = make_cast(), make_cluster()
    rows = [make_reservation(cluster, cast.llm) for _ in range(3)]
    Reservation.objects.update(state="released", released_at=OLD, release_reason="expired")

    with psycopg.connect(postgres.url(role=APP, database=committed_db)) as other:
        # Admission asks anew for a pod that expired unseen: it holds its row until it commits.
        other.execute(
            "UPDATE quotas_reservation SET state = 'reserved', released_at = NULL,"
            " release_reason = '' WHERE id = %s",
            [rows[1].pk],
        )
        meanwhile = purge_reservations(kept=KEPT, actor=ACTOR, at=AT)
        other.commit()
        after = purge_reservations(kept=KEPT, actor=ACTOR, at=AT)

    assert (meanwhile, after) == (2, 0)
    assert list(Reservation.objects.values_list("pk", "state")) == [(rows[1].pk, "reserved")]


def test_between_two_batches_what_is_gone_is_reported_already(
    postgres: EmbeddedPostgres, committed_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    cast, cluster = make_cast(), make_cluster()
    for _ in range(5):
        make_reservation(cluster, cast.llm)
    Reservation.objects.update(state="released", released_at=OLD, release_reason="expired")
    seen: list[tuple[int, int]] = []

    with psycopg.connect(postgres.url(role=APP, database=committed_db), autocommit=True) as other:

        def has_time() -> bool:
            """Look at what a process that is killed now leaves."""
            row = other.execute(
                "SELECT (SELECT count(*) FROM quotas_reservation),"
                " (SELECT COALESCE(sum((facts->>'reservations')::int), 0) FROM tenants_auditentry"
                "   WHERE action = 'quotas:reservation:purged')"
            ).fetchone()
            assert row is not None
            seen.append((int(row[0]), int(row[1])))
            return True

        purged = purge_reservations(kept=KEPT, has_time=has_time, actor=ACTOR, at=AT)

    assert (purged, seen) == (5, [(5, 0), (3, 2), (1, 4)])
    assert not Reservation.objects.exists()


@pytest.mark.usefixtures("committed_db")
def test_notifications_and_deliveries_go_together_and_the_commit_holds() -> None:
    cast = make_cast()
    reported = [
        Notification.objects.create(
            event="quotas:request:approved",
            organization=cast.acme,
            subject=name,
            text=name,
            occurred_at=at,
        )
        for name, at in (("old", OLD), ("young", AT))
    ]
    NotificationDelivery.objects.bulk_create(
        NotificationDelivery(
            notification=one,
            kind="mail",
            address=f"{name}@example.test",
            state="sent",
            next_at=one.occurred_at,
            sent_at=one.occurred_at,
            created_at=one.occurred_at,
        )
        for one in reported
        for name in ("alice", "bob")
    )

    # The foreign key is checked at the commit, which a test that rolls back never comes to.
    assert purge_notifications(kept=KEPT, actor=ACTOR, at=AT) == 1

    assert list(Notification.objects.values_list("subject", flat=True)) == ["young"]
    assert NotificationDelivery.objects.count() == 2
