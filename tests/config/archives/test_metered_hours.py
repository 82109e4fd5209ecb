"""Hours of an archived month cannot be metered: refused where they are entered."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from tenants.domain.actors import system_actor
from tenants.domain.errors import InvalidInputError
from tenants.models import AuditEntry, Cluster
from tenants.services.clusters import register_cluster, update_cluster
from tests.support.builders import AT, MONTH_START, audited, make_cluster
from tests.support.config.archives import LABEL, attach_rows, detach_rows
from tests.support.tenants.clients import api_client, problem
from tests.support.tenants.desk import enter
from tests.tenants.api.test_refused_references import FORM

pytestmark = pytest.mark.usefixtures("world", "detached")
SEED = system_actor("seed")
USAGE = "metering_usagerecord"
MONTH_END = datetime(2026, 11, 1, tzinfo=UTC)
LATER = MONTH_END + timedelta(days=4)
HOUR = timedelta(hours=1)


@pytest.fixture
def detached(owner: psycopg.Connection) -> None:
    """Archive the usage of the month, and take it out of the database."""
    detach_rows(owner, "usage", USAGE)


def refused(**changes: datetime | None) -> list[tuple[str, str, str]]:
    """Return why a change of the later cluster is refused, with nothing changed."""
    cluster = Cluster.objects.get(slug="ampere")
    entries = AuditEntry.objects.count()
    with pytest.raises(InvalidInputError) as refusal:
        update_cluster(cluster=cluster, changes=changes, actor=SEED, at=AT)
    stored = Cluster.objects.get(pk=cluster.pk)
    assert (stored.metered_from, stored.metered_until, stored.version) == (
        cluster.metered_from,
        cluster.metered_until,
        cluster.version,
    )
    assert AuditEntry.objects.count() == entries
    return [(one.field, one.code, one.message) for one in refusal.value.problems]


def test_a_cluster_is_not_registered_for_hours_that_are_archived() -> None:
    def register(metered_from: datetime) -> Cluster:
        return register_cluster(
            slug="new", name="New", metered_from=metered_from, actor=SEED, at=AT
        )

    with pytest.raises(InvalidInputError) as refusal:
        register(MONTH_END - HOUR)

    (found,) = refusal.value.problems
    assert (found.field, found.code) == ("metered_from", "month_archived")
    assert found.message == (
        f"Usage or devices of {LABEL} are archived, so that these hours cannot be metered. Restore"
        " what is archived first (manage.py restore_month), or use an hour from 2026-11-01T00:00Z"
        " on."
    )
    assert not Cluster.objects.filter(slug="new").exists()
    assert register(MONTH_END).metered_from == MONTH_END


def test_the_first_metered_hour_is_not_moved_into_a_month_that_is_archived(
    owner: psycopg.Connection,
) -> None:
    cluster = make_cluster("ampere", metered_from=LATER)

    for hour in (MONTH_END - HOUR, MONTH_START - 48 * HOUR):
        ((field, code, message),) = refused(metered_from=hour)
        assert (field, code) == ("metered_from", "month_archived")
        assert "use an hour from 2026-11-01T00:00Z on" in message
    update_cluster(cluster=cluster, changes={"metered_from": MONTH_END}, actor=SEED, at=AT)
    attach_rows(owner, USAGE)
    changes = {"metered_from": MONTH_START}
    changed = update_cluster(cluster=cluster, changes=changes, actor=SEED, at=AT)

    assert changed.metered_from == MONTH_START


def test_the_hours_before_a_first_hour_within_the_month_are_refused() -> None:
    make_cluster("ampere", metered_from=MONTH_START + 9 * HOUR)

    ((field, _, message),) = refused(metered_from=MONTH_START)

    assert field == "metered_from"
    assert "use an hour from 2026-10-01T09:00Z on" in message


@pytest.mark.parametrize("until", [None, LATER])
def test_metering_does_not_go_on_in_a_month_that_is_archived(until: datetime | None) -> None:
    ended_at = MONTH_START + 9 * HOUR
    cluster = make_cluster("ampere", metered_until=ended_at)

    ((field, code, message),) = refused(metered_until=until)

    assert (field, code) == ("metered_until", "month_archived")
    assert "use 2026-10-01T09:00Z or an earlier hour" in message
    earlier = {"metered_until": ended_at - HOUR, "name": "Ampere"}
    assert update_cluster(cluster=cluster, changes=earlier, actor=SEED, at=AT).name == "Ampere"


def test_a_month_of_which_only_devices_are_archived_takes_no_hours(
    owner: psycopg.Connection,
) -> None:
    attach_rows(owner, USAGE)
    owner.execute("SELECT metering_ensure_device_partition(%s)", [MONTH_START])
    detach_rows(owner, "devices", "metering_devicefigure")
    make_cluster("ampere", metered_from=LATER)

    assert [field for field, _, _ in refused(metered_from=MONTH_START)] == ["metered_from"]


def test_rest_the_page_and_the_preview_name_the_field_and_the_remedy() -> None:
    cluster = make_cluster("ampere", metered_from=LATER)
    with audited():
        User.objects.filter(username="frank").update(is_staff=True)
    frank = User.objects.get(username="frank")

    answer = api_client(frank).patch(
        f"/api/v1/clusters/{cluster.pk}/",
        {"metered_from": "2026-10-31T23:00:00Z"},
        headers={"If-Match": '"1"'},
    )
    page = enter(frank).post(
        f"/admin/tenants/cluster/{cluster.pk}/change/",
        {**FORM, "metered_from_0": "2026-10-31", "metered_from_1": "23:00:00"},
    )
    with pytest.raises(CommandError, match=r"^--from: .* are archived.*restore_month"):
        call_command("preview_metering", "ampere", "--from", "2026-10-31T23:00Z", stdout=StringIO())

    assert problem(answer) == (422, "invalid_input")
    assert [one["field"] for one in answer.json()["problems"]] == ["metered_from"]
    assert page.status_code == 200
    assert "manage.py restore_month" in page.content.decode()
    cluster.refresh_from_db()
    assert (cluster.metered_from, cluster.version) == (LATER, 1)
