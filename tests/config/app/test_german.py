"""Tests of the tenant pages in German: whole, and without effect on what others receive."""

import pytest
from django.test import Client

from tenants.models import Notification
from tests.config.app.conftest import Tenancy, browser_of
from tests.config.app.test_pages import PAGES, open_page
from tests.support.german import GERMAN, english_in, text_of


@pytest.mark.parametrize("path", [*PAGES, "notifications/"])
@pytest.mark.parametrize("person", ["alice", "bob"])
def test_a_page_is_german_as_a_whole(tenancy: Tenancy, person: str, path: str) -> None:
    client = browser_of(getattr(tenancy.cast, person))
    client.defaults |= GERMAN

    answer = open_page(client, path, tenancy)

    assert answer.headers["Content-Language"] == "de"
    assert '<html lang="de">' in answer.content.decode()
    assert english_in(text_of(answer)) == []


@pytest.mark.parametrize("path", ["/accounts/", "/accounts/password/"])
def test_the_pages_of_ones_account_are_german(tenancy: Tenancy, path: str) -> None:
    client = browser_of(tenancy.cast.bob)

    answer = client.get(path, **GERMAN)  # type: ignore[arg-type] # Headers.

    assert english_in(text_of(answer)) == []


@pytest.mark.parametrize(
    "path", ["/accounts/sign-in/", "/accounts/new-password/", "/accounts/new-password/sent/"]
)
def test_pages_before_the_sign_in_are_german(db: None, path: str) -> None:  # noqa: ARG001 - As a table.
    answer = Client().get(path, **GERMAN)  # type: ignore[arg-type] # Headers.

    assert english_in(text_of(answer)) == []


def test_amounts_and_days_are_written_as_in_german(tenancy: Tenancy) -> None:
    client = browser_of(tenancy.cast.alice)
    client.defaults |= GERMAN

    text = text_of(open_page(client, "invoices/{invoice}/", tenancy))

    assert "3,00" in text
    assert "Zahlbetrag" in text
    assert "beantragt von bob am 2. Nov. 2026" in text_of(open_page(client, "", tenancy))


def test_the_api_stays_english(tenancy: Tenancy) -> None:
    client = browser_of(tenancy.cast.alice)
    client.defaults |= GERMAN

    client.get("/app/")
    answer = client.get("/api/v1/quota-requests/?size=huge")

    assert "Content-Language" not in answer.headers
    assert answer.json()["title"]
    assert "gültig" not in answer.content.decode()


def test_a_person_chooses_the_language_whatever_the_browser_asks_for(tenancy: Tenancy) -> None:
    client = browser_of(tenancy.cast.alice)
    client.defaults |= GERMAN

    answer = client.post("/language/", {"language": "en", "next": "/app/"}, follow=True)

    assert answer.redirect_chain == [("/app/", 302)]
    assert '<html lang="en">' in answer.content.decode()
    assert 'lang="de">Deutsch</button>' in answer.content.decode()


def test_a_decision_on_a_german_page_is_notified_in_english(tenancy: Tenancy) -> None:
    client = browser_of(tenancy.cast.alice)
    client.defaults |= GERMAN

    client.post(f"/app/requests/{tenancy.asked.pk}/reject/", {"text": "Zu viel."})

    subject = Notification.objects.get(event="quotas:request:rejected").subject
    assert subject.endswith("for LLM: rejected")


def test_the_request_form_shows_headroom_and_price_in_german(tenancy: Tenancy) -> None:
    client = browser_of(tenancy.cast.bob)
    client.defaults |= GERMAN
    sent = {
        "project": str(tenancy.cast.llm.pk),
        "size": "large",
        "requested_units": "5",
        "step": "preview",
    }

    text = text_of(client.post("/app/requests/new/", sent))

    assert "9.125,00 EUR" in text
    assert english_in(text) == []
