"""Every ledger's list is narrowed to days by a plain form above it."""

from datetime import datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import models
from django.test import Client

from metering.models import MeteringException
from tenants.admin.base import LedgerAdmin, ServiceAdmin
from tenants.admin.lists import DatedAdmin
from tests.support.builders import make_cluster
from tests.support.cast import make_cast
from tests.support.metering.alike import hour_of, stray
from tests.support.metering.seen import HOUR

WITHOUT = {
    "billing.InvoiceSeries": "A row for each series.",
    "quotas.EnforcementTarget": "A row for each namespace.",
    "quotas.PreemptionPolicy": "A row for each organization.",
    "tenants.IdempotencyRecord": "",
    "tenants.NotificationPreference": "A row for each person.",
}
"""Ledgers whose rows are no events, each with the reason."""
LIST = "/admin/metering/meteringexception/"


def has_days(page: Any) -> bool:  # noqa: ANN401 - A page of the admin.
    return isinstance(page, DatedAdmin) and bool(page.day_column)


def test_every_ledger_of_events_has_a_range_of_days() -> None:
    pages = {
        model._meta.label: page  # noqa: SLF001 - Model meta.
        for model, page in admin.site._registry.items()  # noqa: SLF001 - All pages.
        if isinstance(page, LedgerAdmin)
        and not isinstance(page, ServiceAdmin)
        and any(isinstance(one, models.DateField) for one in model._meta.fields)  # noqa: SLF001
    }

    assert sorted(label for label, page in pages.items() if not has_days(page)) == sorted(WITHOUT)


@pytest.fixture
def client(db: None) -> Client:  # noqa: ARG001 - It is the transaction.
    people = make_cast()
    User.objects.update(is_staff=True)
    cluster = make_cluster(metered_from=HOUR)
    for hour in (0, 10, 11, 34, 35):
        stray(hour_of(cluster, hour), f"pod-{hour}")
    signed_in = Client()
    signed_in.force_login(people.frank)
    return signed_in


def hours_of(client: Client, **query: str) -> list[datetime]:
    rows: list[MeteringException] = client.get(LIST, query).context["cl"].result_list
    return sorted(row.window_start for row in rows)


def test_both_days_are_included(client: Client) -> None:
    starts = sorted(MeteringException.objects.values_list("window_start", flat=True))

    assert [f"{start:%d %H}" for start in starts] == ["05 13", "05 23", "06 00", "06 23", "07 00"]
    assert hours_of(client, window_start_from="2026-10-06") == starts[2:]
    assert hours_of(client, window_start_to="2026-10-05") == starts[:2]
    day = {"window_start_from": "2026-10-06", "window_start_to": "2026-10-06"}
    assert hours_of(client, **day) == starts[2:4]
    assert hours_of(client, **day, state__exact="resolved") == []
    assert hours_of(client, window_start_to="9999-12-31") == starts


def test_the_form_keeps_the_other_filters_and_what_was_typed(client: Client) -> None:
    query = {"state__exact": "open", "window_start_from": "2026-10-06", "p": "0"}

    page = client.get(LIST, query).content.decode()

    assert '<input type="hidden" name="state__exact" value="open">' in page
    assert 'name="window_start_from"' in page
    assert 'value="2026-10-06"' in page
    assert 'type="hidden" name="p"' not in page


def test_a_day_that_is_none_finds_nothing_and_says_so(client: Client) -> None:
    query = {"window_start_from": '2026-13-99"><script>'}

    page = client.get(LIST, query).content.decode()

    assert "Write days as 2026-10-31." in page
    assert hours_of(client, **query) == []
    assert '"><script>' not in page
