"""Attacks on the page for a purged password: floods, and what its work says about addresses."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tenants.models import AttemptCount, AuditEntry, PasswordLinkRequest
from tenants.services.identity.sign_in import ATTEMPTS_MAX
from tests.support.cast import Cast
from tests.support.tenants.desk import committed, links_sent

OFFICE = "192.0.2.1"


def ask(email: str, *, address: str = OFFICE) -> Any:  # noqa: ANN401 - The test client's answer.
    return Client(REMOTE_ADDR=address).post("/accounts/new-password/", {"email": email})


def statements_of(email: str, *, address: str) -> list[str]:
    """Return the statements of a request, without values and names of savepoints."""
    with CaptureQueriesContext(connection) as statements:
        ask(email, address=address)
    return [re.split(r'"s\d|\(', statement["sql"])[0] for statement in statements]


def test_a_known_address_costs_the_page_what_an_unknown_one_costs(cast: Cast) -> None:
    known = statements_of(cast.dora.email, address="192.0.2.7")
    unknown = statements_of("stranger@example.test", address="192.0.2.8")

    assert known == unknown
    assert not AuditEntry.objects.exists()
    assert not mail.outbox
    assert len(links_sent()) == 1
    assert not PasswordLinkRequest.objects.exists()


@pytest.mark.usefixtures("cast")
def test_one_network_asks_for_no_more_links_than_the_limit() -> None:
    with committed():
        for number in range(ATTEMPTS_MAX):
            ask(f"stranger{number}@example.test")
        limited = ask("dora@example.test")
        other = ask("frank@example.test", address="203.0.113.9")

    assert (limited.status_code, limited.url) == (other.status_code, other.url)
    assert len(links_sent()) == 1
    assert mail.outbox[0].to == ["frank@example.test"]
    (refusal,) = AuditEntry.objects.filter(action="tenants:password_link:refuse")
    assert (refusal.object_kind, refusal.object_id) == ("network", f"{OFFICE}/32")


def test_many_networks_ask_for_no_more_links_to_one_address_than_the_limit(cast: Cast) -> None:
    with CaptureQueriesContext(connection) as statements:
        for number in range(30):
            ask(
                cast.dora.email.upper() if number % 2 else cast.dora.email,
                address=f"10.0.0.{number}",
            )

    assert PasswordLinkRequest.objects.count() == ATTEMPTS_MAX
    assert len([s for s in statements if "tenants_attemptcount" in s["sql"]]) == 30
    assert AuditEntry.objects.filter(action="tenants:password_link:refuse").count() == 1
    assert not AttemptCount.objects.filter(subject__contains="@").exists()
    assert len(links_sent()) == 1


def test_a_request_is_answered_by_one_worker_and_once(cast: Cast) -> None:
    User.objects.filter(pk=cast.carol.pk).update(email=cast.dora.email)
    ask(cast.dora.email)

    assert len(links_sent()) == 2
    ask(cast.dora.email)
    assert len(links_sent()) == 2
    sent = AuditEntry.objects.filter(action="tenants:user:password_link")
    assert {entry.actor_label for entry in sent} == {"accounts.password"}
    assert all(entry.occurred_at <= timezone.now() for entry in sent)
