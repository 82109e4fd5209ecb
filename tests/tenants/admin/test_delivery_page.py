"""The page of a delivery: what was said word for word, to whom, what came of it, and no secret."""

import html
import json
import re
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from tenants.models import NotificationDelivery, NotificationEndpoint
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.tenants.desk import enter

TOKEN = "xoxb-hunter2-is-no-good-at-all"
LIST = "/admin/tenants/notificationdelivery/"


def deliver(cast: Cast, *, kind: str, address: str) -> NotificationDelivery:
    """Have an address reported of an approval, and return the telling."""
    NotificationEndpoint.objects.create(
        organization=cast.acme,
        kind=kind,
        address=address,
        events=["*"],
        secret_reference="env:WEBHOOK_SECRET_ACME" if kind == "webhook" else "",
        created_at=AT,
    )
    with transaction.atomic():
        notify(
            event="quotas:request:approved",
            organization_id=cast.acme.pk,
            subject="8 large for LLM: approved",
            text="alice approved it.\nFrom now on.",
            facts={"units": 8},
            at=AT,
        )
    return NotificationDelivery.objects.get(address=address)


def page_of(cast: Cast, path: str) -> str:
    response = enter(cast.ann).get(f"{LIST}{path}")
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def said(page: str) -> str:
    """Return what stands in the block of what was said."""
    found = re.search(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert found is not None
    return found[1]


def facts(page: str) -> dict[str, str]:
    """Return the rows of to whom and what came of it."""
    rows = re.findall(r"<th[^>]*>([^<]*)</th>\s*<td[^>]*>([^<]*)</td>", page)
    return {name: text.strip() for name, text in rows}


def test_a_mail_is_shown_as_it_is_sent(cast: Cast, settings: object) -> None:
    settings.MAIL_PAGES = {"public_url": "https://ledger.example.com"}  # type: ignore[attr-defined]
    delivery = deliver(cast, kind="mail", address="gpu@example.com")

    page = page_of(cast, f"{delivery.pk}/change/")

    assert "[GPU Ledger] 8 large for LLM: approved" in page
    assert said(page).splitlines() == [
        "alice approved it.",
        "From now on.",
        "",
        "-- ",
        f"GPU Ledger for acme, {AT:%Y-%m-%d %H:%M} UTC",
        "Event: quotas:request:approved",
        "People choose what they are mailed about:",
        "https://ledger.example.com/",
    ]
    assert facts(page) == {
        "To": "gpu@example.com",
        "How": "mail",
        "Event": "quotas:request:approved",
        "About": "acme",
        "Happened": f"{AT:%Y-%m-%d %H:%M:%S} UTC",
        "Tries": "none",
        "Last result": "Not tried yet.",
        "Next try": "now due",
    }


def test_a_webhook_is_shown_with_its_json_and_without_its_secret(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET_ACME", TOKEN)
    address = f"https://hooks.example.com/services/{TOKEN}?key={TOKEN}"
    delivery = deliver(cast, kind="webhook", address=address)
    soon = timezone.now() + timedelta(hours=1)
    NotificationDelivery.objects.update(
        attempts=3, next_at=soon, last_error="status_500: It answered 500."
    )

    page = page_of(cast, f"{delivery.pk}/change/")

    assert json.loads(said(page)) == {
        "id": str(delivery.notification_id),
        "event": "quotas:request:approved",
        "occurred_at": AT.isoformat(),
        "organization": "acme",
        "subject": "8 large for LLM: approved",
        "text": "alice approved it.\nFrom now on.",
        "facts": {"units": 8},
    }
    reported = facts(page)
    assert (
        reported["To"]
        == "https://hooks.example.com/services/\N{HORIZONTAL ELLIPSIS}?\N{HORIZONTAL ELLIPSIS}"
    )
    assert reported["How"] == "POST of JSON, signed; the secret is shown nowhere"
    assert reported["Tries"] == "3 of at most 10"
    assert reported["Last result"] == "Failed: status_500: It answered 500."
    assert reported["Next try"] == f"{soon:%Y-%m-%d %H:%M} UTC"
    assert f"tenants.notifications.postponed of delivery {delivery.pk}" in page
    assert TOKEN not in page


def test_the_list_shows_result_and_next_try_and_shows_no_token(cast: Cast) -> None:
    address = f"https://hooks.example.com/services/{TOKEN}"
    deliver(cast, kind="webhook", address=address)
    NotificationDelivery.objects.update(attempts=1, last_error="unreachable: Nobody is there.")

    page = page_of(cast, "")

    for words in (
        "8 large for LLM: approved",
        "https://hooks.example.com/services/\N{HORIZONTAL ELLIPSIS}",
        "Failed: unreachable: Nobody is there.",
        "now due",
    ):
        assert words in page, words
    assert TOKEN not in page


def test_a_person_is_reported_at_the_address_of_the_account(cast: Cast) -> None:
    delivery = deliver(cast, kind="mail", address="gpu@example.com")
    NotificationDelivery.objects.update(endpoint=None, state="sent", attempts=1, sent_at=AT)

    reported = facts(page_of(cast, f"{delivery.pk}/change/"))

    assert reported["How"] == "mail, to the address of an account"
    assert reported["Last result"] == f"Taken at {AT:%Y-%m-%d %H:%M} UTC."
    assert reported["Next try"] == "none"
    assert "Earlier failures" not in page_of(cast, f"{delivery.pk}/change/")


def test_a_delivery_that_is_not_there_leads_back(cast: Cast) -> None:
    path = f"{LIST}01a1ffa4-c3b5-7ec1-b7ac-5a1808bc343a/change/"

    assert enter(cast.ann).get(path).status_code == 302
