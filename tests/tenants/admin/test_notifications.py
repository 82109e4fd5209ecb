"""Admin pages of endpoints and deliveries: shown and closed, and no secret among them."""

import pytest
from django.db import transaction

from tenants.models import NotificationDelivery, NotificationEndpoint
from tenants.services.notifications import notify
from tests.builders import AT
from tests.cast import Cast
from tests.tenants.admin.desk import enter

SECRET = "hunter2-is-no-good"


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
def test_pages_show_what_is_told_and_no_secret(
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
