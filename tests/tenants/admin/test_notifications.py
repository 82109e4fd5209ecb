"""Admin pages of endpoints and deliveries: shown and closed, and no secret among them."""

import html

import pytest
from django.db import transaction

from tenants.models import NotificationDelivery, NotificationEndpoint
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.tenants.desk import enter

SECRET = "hunter2-is-no-good"
TOKEN = "xoxb-hunter2-is-no-good-at-all"
WHOLE = f"https://hooks.example.com/services/T0/{TOKEN}?key=hunter3"
SHOWN = "https://hooks.example.com/services/T0/\N{HORIZONTAL ELLIPSIS}?\N{HORIZONTAL ELLIPSIS}"


@pytest.fixture
def endpoint(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> NotificationEndpoint:
    monkeypatch.setenv("WEBHOOK_SECRET_ACME", SECRET)
    made = NotificationEndpoint.objects.create(
        organization=cast.acme,
        kind="webhook",
        address="https://hooks.example.com/gpu",
        events=["quotas:request:*"],
        secret_reference="env:WEBHOOK_SECRET_ACME",
        created_at=AT,
    )
    with transaction.atomic():
        notify(
            event="quotas:request:approved",
            organization_id=cast.acme.pk,
            subject="8 large for LLM: approved",
            text="Yes.",
            at=AT,
        )
    return made


@pytest.mark.parametrize("name", ["frank", "ann"])
def test_pages_show_what_is_reported_and_no_secret(
    cast: Cast, endpoint: NotificationEndpoint, name: str
) -> None:
    client = enter(getattr(cast, name))
    delivery = NotificationDelivery.objects.get()
    shown = {
        "notificationendpoint/": "https://hooks.example.com/gpu",
        "notificationendpoint/?q=hooks": "https://hooks.example.com/gpu",
        f"notificationendpoint/{endpoint.pk}/change/": "quotas:request:*",
        "notificationdelivery/": "8 large for LLM: approved",
        "notificationdelivery/?q=approved": "https://hooks.example.com/gpu",
        f"notificationdelivery/{delivery.pk}/change/": "https://hooks.example.com/gpu",
    }

    for path, words in shown.items():
        response = client.get(f"/admin/tenants/{path}")
        page = response.content.decode()
        assert response.status_code == 200, path
        assert words in page, path
        assert SECRET not in page, path


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
@pytest.mark.usefixtures("endpoint")
def test_others_open_no_page(cast: Cast, name: str) -> None:
    client = enter(getattr(cast, name))

    for table in ("notificationendpoint", "notificationdelivery"):
        assert client.get(f"/admin/tenants/{table}/").status_code == 403


def test_closing_goes_through_the_service(cast: Cast, endpoint: NotificationEndpoint) -> None:
    chosen = {"action": "close_endpoints", "_selected_action": str(endpoint.pk)}

    enter(cast.frank).post("/admin/tenants/notificationendpoint/", chosen)

    endpoint.refresh_from_db()
    assert (endpoint.state, endpoint.version) == ("closed", 2)
    assert NotificationDelivery.objects.get().state == "skipped"


def test_a_delivery_is_changed_by_nobody(cast: Cast, endpoint: NotificationEndpoint) -> None:
    assert endpoint.state == "active"
    delivery = NotificationDelivery.objects.get()
    path = f"/admin/tenants/notificationdelivery/{delivery.pk}/change/"

    assert enter(cast.frank).post(path, {"state": "sent"}).status_code == 403
    delivery.refresh_from_db()
    assert delivery.state == "pending"


@pytest.fixture
def chat(cast: Cast, endpoint: NotificationEndpoint) -> NotificationEndpoint:
    """Return the endpoint at an address with tokens in its path and in its query."""
    assert endpoint.organization == cast.acme
    endpoint.address = WHOLE
    endpoint.save(update_fields=["address"])
    NotificationDelivery.objects.update(address=WHOLE)
    return endpoint


@pytest.mark.parametrize("name", ["frank", "ann"])
def test_no_page_of_endpoints_shows_a_token_of_an_address(
    cast: Cast, chat: NotificationEndpoint, name: str
) -> None:
    client = enter(getattr(cast, name))

    for path in ("", f"{chat.pk}/change/"):
        response = client.get(f"/admin/tenants/notificationendpoint/{path}")
        page = html.unescape(response.content.decode())
        assert response.status_code == 200
        assert SHOWN in page
        assert (TOKEN in page, "hunter3" in page) == (False, False)


def test_changing_the_events_leaves_the_address_as_it_is(
    cast: Cast, chat: NotificationEndpoint
) -> None:
    path = f"/admin/tenants/notificationendpoint/{chat.pk}/change/"

    answer = enter(cast.frank).post(path, {"events": '["quotas:*:*"]', "address": SHOWN})

    assert answer.status_code == 302
    chat.refresh_from_db()
    assert (chat.events, chat.address, chat.version) == (["quotas:*:*"], WHOLE, 2)


def test_a_webhook_with_tokens_is_registered_whole(cast: Cast) -> None:
    given = {
        "organization": str(cast.acme.pk),
        "kind": "webhook",
        "address": WHOLE,
        "events": '["*"]',
        "secret_reference": "env:WEBHOOK_SECRET_ACME",
    }

    answer = enter(cast.frank).post("/admin/tenants/notificationendpoint/add/", given)

    assert answer.status_code == 302
    assert NotificationEndpoint.objects.get().address == WHOLE


@pytest.mark.parametrize("table", ["notificationendpoint", "notificationdelivery"])
@pytest.mark.usefixtures("chat")
def test_a_token_is_not_found_by_searching_for_its_parts(cast: Cast, table: str) -> None:
    client = enter(cast.ann)

    found = {
        query: SHOWN
        in html.unescape(client.get(f"/admin/tenants/{table}/{query}").content.decode())
        for query in ("?q=hooks.example", "?q=xoxb", "?q=hunter3", "?q=services")
    }
    asked = client.get(f"/admin/tenants/{table}/?address__contains=xoxb")

    assert found == {
        "?q=hooks.example": True,
        "?q=xoxb": False,
        "?q=hunter3": False,
        "?q=services": False,
    }
    assert asked.status_code == 400


def test_a_mail_address_is_shown_whole_and_found_by_any_part(
    cast: Cast, chat: NotificationEndpoint
) -> None:
    chat.kind, chat.address, chat.secret_reference = "mail", "gpu-people@example.com", ""
    chat.save()

    page = enter(cast.ann).get("/admin/tenants/notificationendpoint/?q=u-people").content.decode()

    assert "gpu-people@example.com" in page
