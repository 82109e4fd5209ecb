"""Who reads a detached month is told that it is archived, and where."""

import re
import shlex
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from billing.models import Charge, Invoice, InvoiceLine
from embedded.postgres import OWNER, EmbeddedPostgres
from metering.models import UsageRecord
from metering.selectors.devices.unbilled import unbilled_devices
from metering.services.corrections.review import ask_correction
from tenants.domain.archives import MonthArchivedError
from tenants.selectors.actors import actor_of_user
from tenants.selectors.people import user_named
from tests.architecture.source import ROOT
from tests.support.billing.ledger import HOUR
from tests.support.builders import AT, MONTH_START
from tests.support.config.archives import archive, finish_month, move, signed_in
from tests.support.config.planted import verify

pytestmark = pytest.mark.usefixtures("world")
PAGE = ROOT / "docs" / "how-to" / "archive-a-month.md"
RANGE = {
    "window_start_from": "2026-10-31T00:00:00Z",
    "window_start_before": "2026-11-02T00:00:00Z",
}


@pytest.fixture
def owner_url(postgres: EmbeddedPostgres, committed_db: str) -> str:
    finish_month()
    return postgres.url(role=OWNER, database=committed_db)


@pytest.fixture
def detached(owner_url: str, tmp_path: Path) -> Path:
    """Return where the archive of a detached month of usage is."""
    archive(tmp_path)
    with signed_in(owner_url):
        move("detach_month", tmp_path)
    return tmp_path


def test_the_api_refuses_a_range_and_says_who_can_restore_it(detached: Path) -> None:
    client = APIClient()
    client.force_authenticate(user_named("frank"))

    for name in ("usage-records", "usage-summary"):
        answer = client.get(f"/api/v1/{name}/", RANGE)
        assert answer.status_code == 409, answer.content
        body = answer.json()
        assert body["code"] == "month_archived"
        assert body["detail"] == "The usage of 2026-10 is archived."
        assert "Ask a platform administrator" in body["remedy"]
        assert str(detached) not in answer.content.decode()
    assert client.get("/api/v1/usage-records/").json()["results"] == []
    later = {**RANGE, "window_start_from": "2026-11-01T00:00:00Z"}
    assert client.get("/api/v1/usage-records/", later).status_code == 200
    charge = Charge.objects.earliest("pk")
    answer = client.get(f"/api/v1/charges/{charge.pk}/usage-records/")
    assert answer.json()["code"] == "month_archived"


@pytest.fixture
def pages(owner: psycopg.Connection) -> Client:
    """Return a browser of frank, who may see the admin."""
    owner.execute("UPDATE auth_user SET is_staff = true WHERE username = 'frank'")
    client = Client()
    client.force_login(user_named("frank"))
    return client


def test_the_pages_of_a_charge_and_a_day_name_the_archived_month(
    detached: Path, pages: Client
) -> None:
    charge = Charge.objects.earliest("pk")
    line = InvoiceLine.objects.filter(kind="usage").earliest("pk")

    day = pages.get(f"/admin/billing/invoice/lines/{line.pk}/2026-10-01/")
    own = pages.get(f"/admin/billing/charge/{charge.pk}/change/")
    unbilled = pages.get("/admin/metering/deviceusage/unbilled/?week=2026-10-05")

    for page in (day, own, unbilled):
        assert page.status_code == 200
        assert "The usage of 2026-10 is archived." in page.content.decode()
        assert str(detached) not in page.content.decode()


def test_explain_corrections_and_unbilled_devices_refuse_it(owner_url: str, tmp_path: Path) -> None:
    frank = actor_of_user(user_named("frank"))
    record = UsageRecord.objects.earliest("pk")
    archive(tmp_path)
    with signed_in(owner_url):
        move("detach_month", tmp_path)

    with pytest.raises(MonthArchivedError):
        ask_correction(
            record=record, unit_seconds=-1, reason="x", is_four_eyes=False, actor=frank, at=AT
        )
    with pytest.raises(MonthArchivedError):
        unbilled_devices(begin_at=MONTH_START, end_at=MONTH_START + HOUR, limit=1)
    with pytest.raises(CommandError, match=r"usage of 2026-10 is archived.*restore_month"):
        call_command(
            "explain",
            "pod",
            "--cluster=hopper",
            f"--uid={record.pod_uid}",
            f"--until={MONTH_START + HOUR:%Y-%m-%dT%H:00Z}",
            "--hours=1",
        )


@pytest.mark.usefixtures("detached")
def test_invoices_stay_as_they_were(pages: Client) -> None:
    invoice = Invoice.objects.get()
    line = InvoiceLine.objects.filter(kind="usage").earliest("pk")

    shown = [
        pages.get(f"/admin/billing/invoice/{invoice.pk}/change/"),
        pages.get(f"/admin/billing/invoice/lines/{line.pk}/"),
    ]

    assert [page.status_code for page in shown] == [200, 200]
    assert verify() == ""


def test_the_commands_of_the_how_to_do_what_it_says(owner_url: str, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^docker compose run (.*?) python manage\.py (.*)$", text, re.MULTILINE)
    assert [shlex.split(words)[0] for _, words in commands] == [
        "archive_month",
        "archive_due",
        "detach_month",
        "verify",
        "restore_month",
    ]

    for options, words in commands:
        arguments = shlex.split(words.replace("/srv/archives", str(tmp_path)))
        if "database_owner_url" in options:
            with signed_in(owner_url):
                call_command(*arguments)
        elif arguments[0] == "verify":
            assert UsageRecord.objects.count() == 0
            assert verify(*arguments[1:]) == ""
        else:
            call_command(*arguments)

    assert UsageRecord.objects.count() == 3
    assert verify() == ""
