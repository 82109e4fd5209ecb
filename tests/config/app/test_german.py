"""Tests of the tenant pages in German: whole, and without effect on what others receive."""

import gettext
import html
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from billing.access import READ_INVOICE
from config.app.labels import READERS
from tenants.domain.identity.granting import who_may
from tenants.models import Notification
from tests.config.app.conftest import Tenancy, browser_of
from tests.config.app.test_pages import PAGES, open_page

GERMAN = {"HTTP_ACCEPT_LANGUAGE": "de-DE,de;q=0.9,en;q=0.5"}
TEXT_LENGTH_MIN = 13
"""Of what is looked for: a shorter text may be a name, or a part of another word."""
HIDDEN = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*\blang=\"en\"[^>]*>.*?</\w+>", re.DOTALL)
TAG = re.compile("<[^>]*>")


@pytest.fixture(scope="module")
def english() -> list[str]:
    """Return the texts that German pages must not show."""
    path = settings.LOCALE_PATHS[0] / "de" / "LC_MESSAGES" / "django.mo"
    with path.open("rb") as file:
        catalog = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined] # noqa: SLF001 - All of it.
    texts = {key[0] if isinstance(key, tuple) else key: text for key, text in catalog.items()}
    return [
        key
        for key, text in texts.items()
        if len(key) >= TEXT_LENGTH_MIN and "%" not in key and "{" not in key and key != text
    ]


def text_of(answer: Any) -> str:  # noqa: ANN401 - The answer of Django's test client.
    """Return what a page shows, without what it says is English."""
    shown = HIDDEN.sub(" ", answer.content.decode())
    return " ".join(html.unescape(TAG.sub(" ", shown)).split())


@pytest.mark.parametrize("path", [*PAGES, "notifications/"])
@pytest.mark.parametrize("person", ["alice", "bob"])
def test_a_page_is_german_as_a_whole(
    tenancy: Tenancy, english: list[str], person: str, path: str
) -> None:
    client = browser_of(getattr(tenancy.cast, person))
    client.defaults |= GERMAN

    answer = open_page(client, path, tenancy)

    assert answer.headers["Content-Language"] == "de"
    assert '<html lang="de">' in answer.content.decode()
    assert [text for text in english if text in text_of(answer)] == []


@pytest.mark.parametrize("path", ["/accounts/", "/accounts/password/"])
def test_the_pages_of_ones_account_are_german(
    tenancy: Tenancy, english: list[str], path: str
) -> None:
    client = browser_of(tenancy.cast.bob)

    answer = client.get(path, **GERMAN)  # type: ignore[arg-type] # Headers.

    assert [text for text in english if text in text_of(answer)] == []


@pytest.mark.parametrize(
    "path", ["/accounts/sign-in/", "/accounts/new-password/", "/accounts/new-password/sent/"]
)
def test_pages_before_the_sign_in_are_german(db: None, english: list[str], path: str) -> None:  # noqa: ARG001 - As a table.
    answer = Client().get(path, **GERMAN)  # type: ignore[arg-type] # Headers.

    assert [text for text in english if text in text_of(answer)] == []


def test_amounts_and_days_are_written_as_in_german(tenancy: Tenancy) -> None:
    client = browser_of(tenancy.cast.alice)
    client.defaults |= GERMAN

    text = text_of(open_page(client, "invoices/{invoice}/", tenancy))

    assert "3,00" in text
    assert "Zahlbetrag" in text
    assert "beantragt von bob am 2. Nov. 2026" in text_of(open_page(client, "", tenancy))


def test_the_admin_and_the_api_stay_english(tenancy: Tenancy) -> None:
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


def test_readers_of_an_invoice_are_named_as_the_roles_have_it() -> None:
    assert who_may(READ_INVOICE) in READERS


def test_the_request_form_shows_headroom_and_price_in_german(
    tenancy: Tenancy, english: list[str]
) -> None:
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
    assert [one for one in english if one in text] == []
