"""The page of one's own notifications, and where mails lead."""

import pytest
from django.test import Client
from django.urls import resolve

from config.settings.notifications import MAIL_LINKS
from tenants.domain.notification_events import NOTIFICATION_EVENTS
from tenants.models import NotificationPreference
from tests.config.app.conftest import Tenancy, browser_of
from tests.config.app.test_pages import html_of

PAGE = "/app/notifications/"
COMMENTED = "quotas:request:commented"


def save(browser: Client, *events: str, version: str = "1", language: str = "de") -> int:
    form = {"events": events, "version": version, "language": language}
    return browser.post(PAGE, form).status_code


def test_a_person_clears_an_event_and_it_stays_cleared(tenancy: Tenancy) -> None:
    alice = browser_of(tenancy.cast.alice)
    shown = [name for name in NOTIFICATION_EVENTS if f'value="{name}"' in html_of(alice.get(PAGE))]

    status = save(alice, *(name for name in shown if name != COMMENTED))

    stored = NotificationPreference.objects.get()
    page = html_of(alice.get(PAGE))
    assert status == 302
    assert (stored.user, stored.muted_events, stored.language) == (
        tenancy.cast.alice,
        [COMMENTED],
        "de",
    )
    assert "metering:incident:opened" not in shown
    assert page.count("checked") == len(shown) - 1
    assert 'value="de" selected' in page


def test_events_that_the_page_does_not_show_stay_muted(tenancy: Tenancy) -> None:
    hidden = "metering:incident:opened"
    NotificationPreference.objects.create(
        user=tenancy.cast.alice, muted_events=[hidden], changed_at=tenancy.office.period.created_at
    )

    save(browser_of(tenancy.cast.alice), *NOTIFICATION_EVENTS)

    assert NotificationPreference.objects.get().muted_events == [hidden]


@pytest.mark.parametrize(
    ("version", "status"), [("7", 412), ("x", 422), ("", 422), ("9" * 5000, 422)]
)
def test_a_form_of_another_version_changes_nothing(
    tenancy: Tenancy, version: str, status: int
) -> None:
    assert save(browser_of(tenancy.cast.alice), version=version) == status
    assert not NotificationPreference.objects.exists()


def test_every_mail_leads_to_a_page_that_there_is() -> None:
    facts = dict.fromkeys(("document", "request", "run"), "01890000-0000-7000-8000-000000000001")

    assert set(MAIL_LINKS) <= set(NOTIFICATION_EVENTS)
    for link in MAIL_LINKS.values():
        resolve(link.format(**facts, month="2026-10").partition("?")[0])
