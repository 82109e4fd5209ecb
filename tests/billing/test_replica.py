"""Reports and exports read from a real streaming replica that is up to date, behind, or away."""

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, connections, transaction
from django.test import Client, RequestFactory
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings
from structlog.testing import capture_logs

from billing.services.showback import add_up_changed_days
from config.doctor.database import check_replica
from config.monitoring.metrics import metrics
from embedded.postgres import EmbeddedPostgres, EmbeddedReplica
from embedded.postgres_data import SUPERUSER
from embedded.programs import wait_until
from tenants.domain.actors import system_actor
from tenants.models import Membership, Organization
from tenants.selectors import report_database as module
from tenants.selectors.report_database import (
    REPLICA,
    ReplicaAwayError,
    replica_state,
    report_database,
)
from tenants.services.identity.memberships import revoke_role
from tests.conftest import folder_in_memory
from tests.support.billing.office import Office, make_office
from tests.support.builders import audited
from tests.support.tenants.clients import api_client

OCTOBER = {"from": "2026-10-01", "to": "2026-11-01"}


@pytest.fixture(scope="module")
def server(postgres: EmbeddedPostgres) -> Iterator[EmbeddedReplica]:
    """A copy of the session's server that replays what it writes."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-replica-", dir=folder_in_memory()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        replica = EmbeddedReplica(folder / "state", primary=postgres, is_durable=False)
        replica.start()
        yield replica
        replica.stop()


@pytest.fixture
def replica(
    server: EmbeddedReplica,
    committed_db: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[EmbeddedReplica]:
    """The replica as a deployment names it; it replays again at the end."""
    parts = {**connections["default"].settings_dict, "NAME": committed_db, "PORT": str(server.port)}
    known = connections["default"].settings_dict
    parts["OPTIONS"] = {**known["OPTIONS"], "connect_timeout": "1"}
    settings.REPLICA_LAG_SECONDS_MAX = 60
    monkeypatch.setattr(module._Pause, "until", 0.0)  # noqa: SLF001 - The process's memory.
    monkeypatch.setitem(connections.settings, REPLICA, parts)
    yield server
    connections[REPLICA].close()
    del connections[REPLICA]
    if server.process is None or server.process.poll() is not None:
        server.start()
    replay(server, is_paused=False)


def replay(server: EmbeddedReplica, *, is_paused: bool) -> None:
    """Pause or resume what the replica replays."""
    url = server.url(role=SUPERUSER, database="postgres")
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(f"SELECT pg_wal_replay_{'pause' if is_paused else 'resume'}()")
        if is_paused:
            wait_until(
                lambda: (
                    database.execute("SELECT pg_get_wal_replay_pause_state()").fetchone()
                    == ("paused",)
                ),
                timeout_seconds=10,
            )


def caught_up() -> None:
    """Wait until the replica has all that is committed."""

    def is_level() -> bool:
        with suppress(ReplicaAwayError):
            state = replica_state()
            return state.as_of == state.now
        return False

    wait_until(is_level, timeout_seconds=20)
    assert is_level()


def rename(name: str) -> None:
    Organization.objects.filter(slug="acme").update(name=name)


def now() -> datetime:
    return datetime.now(UTC)


def minute_of(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


def costs(user: User) -> tuple[set[str], datetime | None]:
    """Return the organizations of a caller's cost report, and as of which minute it is."""
    answer = api_client(user).get("/api/v1/costs/", {**OCTOBER, "group_by": "organization"})
    assert answer.status_code == 200, answer.content
    body = answer.json()
    stated = body["as_of"]
    names = {row["group"][0]["name"] for row in body["results"]}
    return names, None if stated is None else datetime.fromisoformat(stated)


def office_on_both() -> Office:
    office = make_office()
    with audited():
        User.objects.filter(pk=office.cast.dora.pk).update(is_staff=True)
    add_up_changed_days()
    caught_up()
    return office


def test_a_replica_that_keeps_up_is_read_and_is_as_of_now(replica: EmbeddedReplica) -> None:
    office = office_on_both()
    before = now()
    # Its primary writes to the disk a moment after each commit.
    found = [report_database(at=before)]

    def is_current() -> bool:
        found.append(report_database(at=before))
        return found[-1].as_of > before

    wait_until(is_current, timeout_seconds=20)
    names, as_of = costs(office.cast.dora)
    database = found[-1]

    assert names == {"Acme", "Umbrella"}
    assert as_of is not None
    assert minute_of(before) <= as_of == minute_of(as_of) <= now()
    assert before <= database.as_of <= now()
    assert (database.alias, connections["default"].alias) == (REPLICA, "default")
    with database.reading(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery(), inet_server_port()")
        assert cursor.fetchone() == (True, replica.port)
    assert connection.alias == "default"


def test_reports_of_a_replica_that_is_behind_say_as_of_when(
    replica: EmbeddedReplica, settings: Settings
) -> None:
    office = office_on_both()
    settings.REPLICA_LAG_SECONDS_MAX = 600
    replay(replica, is_paused=True)
    paused_at = now()
    rename("Renamed")

    client = api_client(office.cast.dora)
    focus = client.get("/api/v1/exports/focus/", {"month": "2026-10"})
    month = client.get("/api/v1/exports/month/", {"month": "2026-10"})
    csv = client.get("/api/v1/costs/csv/", OCTOBER)
    use = client.get("/api/v1/usage-summary/", {"month": "2026-10"}).json()
    names, as_of = costs(office.cast.dora)

    assert as_of is not None
    assert (names, as_of <= paused_at) == ({"Acme", "Umbrella"}, True)
    assert datetime.fromisoformat(use["as_of"]) == as_of
    content = focus.getvalue()
    assert (b"Acme" in content, b"Renamed" in content) == (True, False)
    assert (b"Acme" in csv.content, b"Renamed" in csv.content) == (True, False)
    with zipfile.ZipFile(io.BytesIO(month.getvalue())) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert b"Renamed" not in archive.read("focus/CostAndUsage.csv")
    assert datetime.fromisoformat(manifest["as_of"]) <= paused_at
    (stated,) = {datetime.fromisoformat(answer["Data-As-Of"]) for answer in (focus, month, csv)}
    assert as_of == minute_of(stated) < paused_at


def test_pages_of_a_replica_that_is_behind_say_as_of_when(
    replica: EmbeddedReplica, settings: Settings
) -> None:
    office = office_on_both()
    settings.REPLICA_LAG_SECONDS_MAX = 600
    replay(replica, is_paused=True)
    rename("Renamed")
    finance, tenant = Client(), Client()
    finance.force_login(office.cast.dora)
    tenant.force_login(office.cast.alice)

    page = finance.get("/admin/billing/dailycost/costs/?begin=2026-10-01&last=2026-10-31")
    own = tenant.get("/app/costs/", {"month": "2026-10"})

    for answer in (page, own):
        assert answer.status_code == 200
        assert "Read from a copy of the database as of " in answer.content.decode()
    assert ">Acme<" in page.content.decode().replace("\n", "").replace("  ", "")


def test_a_replica_that_lags_too_far_is_not_read(
    replica: EmbeddedReplica, settings: Settings
) -> None:
    office = office_on_both()
    settings.REPLICA_LAG_SECONDS_MAX = 0
    replay(replica, is_paused=True)
    rename("Renamed")

    with capture_logs() as logs:
        names, as_of = costs(office.cast.dora)

    assert (names, as_of) == ({"Renamed", "Umbrella"}, None)
    warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert warnings == ["reports.replica.behind"]


def test_a_replica_that_is_away_is_not_read_nor_tried_for_every_report(
    replica: EmbeddedReplica,
) -> None:
    office = office_on_both()
    replica.stop()
    rename("Renamed")

    with capture_logs() as logs:
        reports = [costs(office.cast.dora)[0] for _ in range(3)]

    assert reports == [{"Renamed", "Umbrella"}] * 3
    warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert warnings == ["reports.replica.away"]


def test_a_right_that_was_taken_away_is_gone_on_the_replica_at_once(
    replica: EmbeddedReplica, settings: Settings
) -> None:
    office = office_on_both()
    settings.REPLICA_LAG_SECONDS_MAX = 600
    replay(replica, is_paused=True)
    assert costs(office.cast.alice)[0] == {"Acme"}

    for membership in Membership.objects.filter(user=office.cast.alice):
        revoke_role(membership=membership, actor=system_actor("test"), at=now())

    assert costs(office.cast.alice)[0] == set()


@pytest.mark.usefixtures("replica")
def test_nothing_is_written_and_no_transaction_reads_elsewhere() -> None:
    office_on_both()
    database = report_database(at=now())

    with database.reading(), pytest.raises(DatabaseError, match="read-only transaction"):
        rename("Renamed")
    with transaction.atomic():
        within = report_database(at=now())

    assert (database.is_replica, within.is_replica) == (True, False)
    assert set(Organization.objects.values_list("name", flat=True)) == {"Acme", "Umbrella"}


@pytest.mark.usefixtures("replica")
def test_a_file_that_is_not_read_to_its_end_leaves_no_transaction() -> None:
    office = office_on_both()
    answer = api_client(office.cast.dora).get("/api/v1/exports/month/", {"month": "2026-10"})

    with closing(answer):
        next(iter(answer))
        assert connections[REPLICA].in_atomic_block is True
        assert connection.alias == "default"

    assert connections[REPLICA].in_atomic_block is False
    assert connection.in_atomic_block is False
    rename("Renamed")


def test_a_replica_that_was_promoted_is_not_read(replica: EmbeddedReplica) -> None:
    """Its own later writes are none of the ledger's."""
    connections.settings[REPLICA] = {**connections["default"].settings_dict}

    with pytest.raises(ReplicaAwayError, match="It is no replica"):
        replica_state()
    assert report_database(at=now()).is_replica is False
    assert replica.port != connections["default"].settings_dict["PORT"]


def test_lag_is_what_the_primary_committed_since(replica: EmbeddedReplica) -> None:
    office_on_both()
    replay(replica, is_paused=True)
    rename("Renamed")

    state = replica_state()

    assert timedelta(0) < state.lag < timedelta(minutes=1)
    assert state.as_of < state.now


def test_doctor_and_metrics_say_how_far_the_replica_is_behind(
    replica: EmbeddedReplica, settings: Settings
) -> None:
    office_on_both()
    (level,) = check_replica()
    lag_seconds, limit_seconds = replica_gauges()
    replay(replica, is_paused=True)
    rename("Renamed")
    settings.REPLICA_LAG_SECONDS_MAX = -1
    (behind,) = check_replica()
    replica.stop()
    (away,) = check_replica()

    assert [level.state, behind.state, away.state] == ["ok", "warning", "warning"]
    assert level.found == "The replica is 0 s behind; reports are read from it."
    assert behind.found == "The replica is 0 s behind. Reports are read from the primary."
    assert away.found.startswith("The replica cannot be read: It does not answer (")
    assert (lag_seconds < 60, limit_seconds) == (True, 60)
    assert replica_gauges() == (math.inf, -1)


def replica_gauges() -> tuple[float, ...]:
    """Return the gauges of the replica from a scrape."""
    text = metrics(RequestFactory().get("/metrics")).content.decode()
    return tuple(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "_replica_" in sample.name
    )
