"""Write-offs on the invoice's page: proposed, confirmed by another person, reversed, and listed."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from billing.models import Invoice, WriteOff
from tenants.domain.identity.roles import Role
from tests.support.billing.late import finalize
from tests.support.billing.office import Office
from tests.support.billing.payments import settled
from tests.support.builders import grant, make_user
from tests.support.shared_rows import shared_rows

LIST = "/admin/billing/writeoff/"


@pytest.fixture(autouse=True)
def staff(office: Office) -> None:  # noqa: ARG001 - The people must be there.
    User.objects.update(is_staff=True)


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize(draft)


@pytest.fixture
def eric() -> Client:
    user = make_user("eric", is_staff=True)
    grant(user, Role.FINANCE_ADMIN)
    return enter(user)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, invoice: Invoice) -> str:
    return client.get(f"/admin/billing/invoice/{invoice.pk}/change/").content.decode()


def press(client: Client, address: str, **body: str) -> str:
    return client.post(f"{LIST}{address}/", body, follow=True).content.decode()


def test_what_is_open_is_written_off_by_two_persons_and_reversed(
    office: Office, final: Invoice, eric: Client
) -> None:
    dora = enter(office.cast.dora)

    assert 'value="3.00"' in page(dora, final)
    own = press(dora, f"{final.pk}/open", amount="2.00", text="Insolvent.")
    row = WriteOff.objects.get()
    assert "another person confirms it, a finance admin." in own
    assert f"{LIST}{row.pk}/confirm/" not in own
    assert "confirmed by another person" in press(dora, f"{row.pk}/confirm")
    assert settled(final)[1] == "3.00"

    assert f"{LIST}{row.pk}/confirm/" in page(eric, final)
    done = press(eric, f"{row.pk}/confirm")
    assert "Written off: 2.00 EUR." in done
    assert settled(final)[1] == "1.00"
    assert "Reversed: they paid." in press(dora, f"{row.pk}/reverse", text="Reversed: they paid.")
    assert settled(final) == ("open", "3.00")


@pytest.mark.parametrize("amount", ["x", "1e99", "0", "3.01"])
def test_a_wrong_amount_writes_nothing_off(office: Office, final: Invoice, amount: str) -> None:
    answer = press(enter(office.cast.dora), f"{final.pk}/open", amount=amount, text="Insolvent.")

    assert "Write off at most what is open" in answer
    assert not WriteOff.objects.exists()


def test_an_auditor_sees_who_confirms(office: Office, final: Invoice) -> None:
    press(enter(office.cast.dora), f"{final.pk}/open", text="Insolvent.")
    row, ann = WriteOff.objects.get(), enter(office.cast.ann)

    assert "It is confirmed by a finance admin." in page(ann, final)
    assert ann.post(f"{LIST}{row.pk}/confirm/").status_code == 403
    assert ann.post(f"{LIST}{final.pk}/open/").status_code == 403
    assert f"/admin/billing/invoice/{final.pk}/change/#beside" in ann.get(LIST).content.decode()
