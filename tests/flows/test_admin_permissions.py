"""Who opens which page of the admin: every table, by the platform's people and by tenants.

Only statuses are looked at, so nothing is rendered; the tests of each app's pages render them.
"""

import logging
from collections.abc import Iterator

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.template import Template
from django.test import Client
from django.utils.safestring import SafeString

from tests.support.cast import Cast, make_cast
from tests.support.digest import ledger_digest
from tests.support.sampling import sampled

PEOPLE = ("dora", "ann", "frank")
TENANTS = ("carol", "bob", "alice", "mallory")
PAGES = {
    # Who opens the list, and who the form that adds: finance, auditor, platform.
    "auth.group": "yyy ---",
    "auth.user": "yyy --y",
    "billing.accrualexception": "yyy ---",
    "billing.accruedcorrection": "yyy ---",
    "billing.accruedwindow": "yyy ---",
    "billing.billingperiod": "yyy y--",
    "billing.charge": "yyy ---",
    "billing.dispute": "yyy ---",
    "billing.exportrun": "yyy ---",
    "billing.exportschedule": "yyy y--",
    "billing.invoice": "yyy ---",
    "billing.invoiceseries": "yyy ---",
    "billing.journalentry": "yyy ---",
    "billing.documentdelivery": "yyy y--",
    "billing.openingbalance": "yyy y--",
    "billing.payment": "yyy ---",
    "billing.reminder": "yyy ---",
    "billing.reminderstop": "yyy y--",
    "billing.price": "yyy y--",
    "billing.pricebook": "yyy y--",
    "billing.customerclass": "yyy y--",
    "billing.dailycost": "yyy ---",
    "billing.customerclassmembership": "yyy y--",
    "billing.pricebookassignment": "yyy y--",
    "billing.pricedraft": "yyy y--",
    "billing.repricing": "yyy y--",
    "billing.taxrate": "yyy y--",
    "billing.minimumcharge": "yyy y--",
    "billing.pricecalendar": "yyy y--",
    "billing.taxtreatment": "yyy y--",
    "billing.issuer": "yyy y--",
    "billing.recipient": "yyy y--",
    "billing.projectroute": "yyy y--",
    "billing.tierschedule": "yyy y--",
    "billing.writeoff": "yyy ---",
    "metering.capacityrecord": "yyy ---",
    "metering.catalogueversion": "yyy ---",
    "metering.clusterhealth": "yyy ---",
    "metering.creditproposal": "yyy ---",
    "metering.deviceevent": "yyy ---",
    "metering.deviceusage": "yyy ---",
    "metering.meteringexception": "yyy ---",
    "metering.meteringwindow": "yyy ---",
    "metering.podallocation": "yyy ---",
    "metering.usagecorrection": "yyy ---",
    "metering.usagerecord": "yyy ---",
    "metering.wastefinding": "yyy ---",
    "metering.windowrecheck": "yyy ---",
    "quotas.admissionrefusal": "yyy ---",
    "quotas.enforcementtarget": "yyy ---",
    "quotas.isolationpolicy": "yyy --y",
    "quotas.preemptionplan": "yyy --y",
    "quotas.preemptionpolicy": "yyy ---",
    "quotas.protectedwindow": "yyy --y",
    "quotas.quotagrant": "yyy --y",
    "quotas.loanpolicy": "yyy --y",
    "quotas.quotalimit": "yyy --y",
    "quotas.quotaloan": "yyy ---",
    "quotas.quotasuspension": "yyy y-y",
    "quotas.quotarequest": "yyy ---",
    "quotas.requestpolicy": "yyy --y",
    "quotas.reservation": "yyy ---",
    "tenants.accountchange": "yyy yyy",
    "tenants.apitoken": "--y --y",
    "tenants.archivedmonth": "yyy ---",
    "tenants.auditentry": "yyy ---",
    "tenants.cluster": "yyy --y",
    "tenants.idempotencyrecord": "yyy ---",
    "tenants.membership": "yyy --y",
    "tenants.namespacebinding": "yyy --y",
    "tenants.notificationdelivery": "yyy ---",
    "tenants.notificationendpoint": "yyy --y",
    "tenants.notificationpreference": "yyy ---",
    "tenants.organization": "yyy --y",
    "tenants.project": "yyy --y",
    "tenants.serviceaccount": "yyy --y",
}


@pytest.fixture
def cast(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cast]:  # noqa: ARG001 - It is the transaction.
    """Everybody, let into the site; what opens there is reported by roles."""
    logging.disable(logging.WARNING)
    monkeypatch.setattr(Template, "render", lambda *_: SafeString(""))
    made = make_cast()
    User.objects.update(is_staff=True)
    yield made
    logging.disable(logging.NOTSET)


def tables() -> dict[str, str]:
    """Return the address of each table's list by its label."""
    return {
        model._meta.label_lower: f"/admin/{model._meta.label_lower.replace('.', '/')}/"  # noqa: SLF001 - Model meta.
        for model in admin.site._registry  # noqa: SLF001 - What the site has is reported nowhere else.
    }


def client_of(cast: Cast, name: str) -> Client:
    client = Client()
    client.force_login(getattr(cast, name))
    return client


def opened(client: Client, address: str) -> str:
    status = client.get(address).status_code
    return {200: "y", 403: "-", 404: "-"}.get(status, str(status))


def test_every_table_of_the_site_stands_here() -> None:
    assert set(PAGES) == set(tables())


def test_the_platforms_people_open_and_add_what_their_roles_allow(cast: Cast) -> None:
    clients = [client_of(cast, name) for name in PEOPLE]

    found = {
        label: " ".join(
            "".join(opened(client, f"{address}{page}") for client in clients)
            for page in ("", "add/")
        )
        for label, address in tables().items()
    }

    assert found == PAGES


@pytest.mark.parametrize("name", sampled(TENANTS, every=len(TENANTS)))
def test_a_role_of_one_organization_opens_nothing_even_for_staff(cast: Cast, name: str) -> None:
    client, before = client_of(cast, name), ledger_digest()

    for label, address in tables().items():
        answers = [
            client.get(address),
            client.get(f"{address}add/"),
            client.post(f"{address}add/", {"name": "x", "slug": "x"}),
            client.post(address, {"action": "delete_selected", "_selected_action": "1"}),
        ]
        assert {answer.status_code for answer in answers} == {403}, label

    assert ledger_digest() == before


def test_nobody_deletes_anything_in_the_admin(cast: Cast) -> None:
    frank = client_of(cast, "frank")
    before = ledger_digest()

    for label, address in tables().items():
        answer = frank.post(
            address,
            {"action": "delete_selected", "_selected_action": str(cast.acme.pk), "post": "yes"},
        )
        assert answer.status_code in {200, 302, 403}, label

    assert ledger_digest() == before


def test_who_is_not_staff_is_sent_to_the_sign_in_page(cast: Cast) -> None:
    User.objects.update(is_staff=False)
    client = client_of(cast, "frank")

    for label, address in tables().items():
        answer = client.get(address)
        assert (answer.status_code, answer["Location"].split("?")[0]) == (
            302,
            "/admin/login/",
        ), label
