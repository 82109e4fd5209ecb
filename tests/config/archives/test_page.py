"""The page of archived months: what was detached, by whom, and what was restored."""

import re

import psycopg
import pytest
from django.contrib.auth.models import User
from django.test import Client

from tenants.models import ArchivedMonth
from tenants.selectors.people import user_named
from tests.support.builders import audited
from tests.support.german import GERMAN
from tests.support.tenants.desk import enter

pytestmark = pytest.mark.usefixtures("world", "months")
LIST = "/admin/tenants/archivedmonth/"
_ROW = """
INSERT INTO tenants_archivedmonth (table_name, label, begin_at, end_at, row_count, sums,
  manifest_sha256, windows_sha256, location, detached_at, detached_by, reason, restored_by,
  restore_reason)
VALUES (%s, %s, %s::date, %s::date + interval '1 month', %s, %s, repeat(%s, 64), repeat('f', 64),
        '/srv/archives/' || %s, '2026-11-20 08:30Z', 'frank', 'Kept one year.', '', '')
"""
_RESTORED = """
UPDATE tenants_archivedmonth
   SET restored_at = '2026-11-21 09:00Z', restored_by = 'dora', restore_reason = 'A tax audit.'
 WHERE label = '2026-09'
"""


@pytest.fixture
def months(owner: psycopg.Connection) -> None:
    """Write three archived months, one of them restored, and let everyone into the admin."""
    with audited():
        User.objects.update(is_staff=True)
    usage, energy = '{"unit_seconds": "1234567890"}', '{"energy_millijoules": "4200"}'
    money = '{"EUR": "1234.5000000000", "unit_seconds": "7200"}'
    for table, label, count, sums, digit in (
        ("usage", "2026-08", 4_200_000, usage, "a"),
        ("devices", "2026-08", 12, energy, "b"),
        ("charges", "2026-09", 3, money, "c"),
    ):
        first = f"{label}-01"
        owner.execute(_ROW, [table, label, first, first, count, sums, digit, f"{table}-{label}"])
    owner.execute(_RESTORED)


def text_of(client: Client, path: str) -> str:
    """Return the text of a page."""
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


@pytest.mark.parametrize("name", ["dora", "frank", "ann"])
def test_finance_platform_and_auditors_see_each_archived_month(name: str) -> None:
    client = enter(user_named(name))

    text = text_of(client, LIST)

    for shown in (
        "2026-08 Usage 4,200,000 1,234,567,890 unit-seconds",
        "2026-08 Devices 12 4,200 millijoules",
        "2026-09 Charges 3 1,234.5000000000 EUR; 7,200 unit-seconds",
        "Kept one year. aaaaaaaaaaaa",
    ):
        assert shown in text
    assert f'href="{LIST}"' in client.get("/admin/tenants/").content.decode()


def test_the_page_of_a_month_has_both_hashes_and_who_restored_it() -> None:
    month = ArchivedMonth.objects.get(label="2026-09")

    text = text_of(enter(user_named("ann")), f"{LIST}{month.pk}/change/")

    for shown in ("c" * 64, "f" * 64, "/srv/archives/charges-2026-09", "dora", "A tax audit."):
        assert shown in text


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory"])
def test_a_role_of_one_organization_opens_neither_list_nor_month(name: str) -> None:
    client, month = enter(user_named(name)), ArchivedMonth.objects.first()

    assert month is not None
    for path in (LIST, f"{LIST}{month.pk}/change/"):
        assert client.get(path).status_code == 403


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("?restored_at__isempty=1", {"Usage", "Devices"}),
        ("?restored_at__isempty=0", {"Charges"}),
        ("?table_name__exact=devices", {"Devices"}),
        ("?q=usage-2026", {"Usage"}),
        ("?begin_at_from=2026-09-01", {"Charges"}),
    ],
)
def test_months_are_found_by_state_table_archive_and_day(query: str, labels: set[str]) -> None:
    text = text_of(enter(user_named("ann")), f"{LIST}{query}")

    assert set(re.findall(r"2026-0[89] (Usage|Devices|Charges)", text)) == labels


def test_nothing_is_added_changed_or_deleted() -> None:
    client, month = enter(user_named("frank")), ArchivedMonth.objects.first()

    assert month is not None
    assert client.get(f"{LIST}add/").status_code == 403
    for path in (f"{LIST}{month.pk}/change/", f"{LIST}{month.pk}/delete/"):
        assert client.post(path, {"reason": "Another.", "post": "yes"}).status_code == 403


def test_the_list_is_german() -> None:
    client = enter(user_named("ann"))
    client.defaults |= GERMAN

    text = text_of(client, LIST)

    for shown in ("Archivierte Monate", "2026-08 Nutzung 4.200.000", "1.234.567.890"):
        assert shown in text
