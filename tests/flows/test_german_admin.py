"""The pages of the admin in German: no page shows a text that is not translated."""

from collections.abc import Iterator

import pytest
import time_machine
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from billing.models import InvoiceLine
from metering.models import MeteringException
from tenants.models import Cluster
from tests.config.app.conftest import Tenancy, browser_of, make_tenancy
from tests.support.billing.payments import pay
from tests.support.builders import AT
from tests.support.german import GERMAN, english_in, english_parts, text_of
from tests.support.metering.alike import hour_of, stray
from tests.support.shared_rows import shared_rows

PEOPLE = ("dora", "frank")
"""Finance and the platform: together they have every form."""
APPS = ("auth", "billing", "metering", "quotas", "tenants")
PAGES = (
    "/admin/",
    "/admin/billing/",
    "/admin/billing/billingperiod/close/?month=2026-10",
    "/admin/billing/billingperiod/close/?month=2026-11&to_date=1",
    "/admin/billing/dailycost/costs/",
    "/admin/billing/charge/waste/",
    "/admin/billing/payment/ageing/",
    "/admin/billing/payment/statement/?organization=acme&begin=2026-10-01&end=2026-12-01",
    "/admin/billing/payment/import/",
    "/admin/billing/journalentry/months/",
    "/admin/billing/invoice/lines/{line}/",
    "/admin/billing/invoice/lines/{line}/2026-10-05/",
    "/admin/quotas/quotalimit/board/",
    "/admin/metering/meteringwindow/calendar/?month=2026-10",
    "/admin/metering/meteringexception/incidents/{incident}/",
    "/admin/metering/meteringexception/{exception}/remedy/",
    "/admin/metering/deviceusage/sharing/",
    "/admin/metering/deviceusage/unbilled/",
    "/admin/metering/catalogueversion/edit/",
)
BYTES_MAX = 300 * 1024
DATA = {
    "tenants/auditentry": {"Invoice", "Payment", "invoice", "payment"},
    "metering/usagerecord": {"Running", "running"},
}
"""By table, values that are shown as they are stored, which other pages translate."""


@pytest.fixture(autouse=True)
def at_the_moment() -> Iterator[None]:
    """Let it be the moment at which the world was made."""
    with time_machine.travel(AT, tick=False):
        yield


@shared_rows
def world() -> Tenancy:
    """Return the office with an invoice, a payment, a quota request and an open exception."""
    with time_machine.travel(AT, tick=False):
        made = make_tenancy()
        pay()
        stray(hour_of(Cluster.objects.get(), 0), "pod-0")
        User.objects.update(is_staff=True)
        return made


def german_client(world: Tenancy, person: str) -> Client:
    client = browser_of(getattr(world.cast, person))
    client.defaults |= GERMAN
    return client


def english_on(client: Client, path: str) -> list[str]:
    answer = client.get(path)
    if answer.status_code != 200:
        return [] if answer.status_code in {302, 403, 404} else [str(answer.status_code)]
    assert answer.headers["Content-Language"] == "de"
    assert len(answer.content) <= BYTES_MAX
    stored = next((texts for table, texts in DATA.items() if table in path), set())
    found = {*english_in(text_of(answer)), *english_parts(answer)} - stored
    return sorted(found)


@pytest.mark.parametrize("app", APPS)
def test_lists_rows_and_forms_are_german(world: Tenancy, app: str) -> None:
    paths = []
    for model in admin.site._registry:  # noqa: SLF001 - All pages.
        meta = model._meta  # noqa: SLF001 - Documented model meta.
        if meta.app_label == app:
            table = f"/admin/{app}/{meta.model_name}/"
            row = model._default_manager.first()  # noqa: SLF001 - As above.
            paths += [table, f"{table}add/", *([f"{table}{row.pk}/change/"] if row else [])]

    clients = [german_client(world, person) for person in PEOPLE]
    found = {path: english_on(client, path) for path in paths for client in clients}

    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_german(world: Tenancy, path: str) -> None:
    exception = MeteringException.objects.get()
    named = {
        "line": InvoiceLine.objects.first().pk,  # type: ignore[union-attr] # There is one.
        "incident": exception.incident,
        "exception": exception.pk,
    }

    found = [english_on(german_client(world, one), path.format(**named)) for one in PEOPLE]

    assert found == [[], []]
