"""The contract of senders, held by all three; and what each writes, as its reader gets it."""

import email.policy
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from email import message_from_bytes
from uuid import UUID

import pytest
from pytest_django import Settings

from simulator.adapters.notification_sender import SimulatedSender
from tenants.adapters import notification_senders
from tenants.adapters.guarded import GuardedPoster
from tenants.adapters.mail import MailSender
from tenants.adapters.notification_webhook import WebhookSender, body_of, signature
from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import NotificationSender, OutgoingNotification
from tests.support.builders import AT
from tests.support.tenants.receivers import MailServer, Receiver, mailbox, receiving

SECRET = "a secret of acme"
TOLD = OutgoingNotification(
    event_id=UUID("01890000-0000-7000-8000-000000000001"),
    event="quotas:request:approved",
    occurred_at=AT,
    organization="acme",
    subject="8 large for LLM: approved",
    text="LLM may hold 8 large from now on.\n\nAlice says: Für März.\n",
    facts={"requested_units": 8, "project": "llm"},
    address="",
    secret_reference="env:WEBHOOK_SECRET_ACME",
)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET_ACME", SECRET)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def mails(settings: Settings) -> Iterator[MailServer]:
    with mailbox() as made:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = made.server_address[:2]
        settings.EMAIL_TIMEOUT = 5
        yield made


def webhook(receiver: Receiver) -> tuple[WebhookSender, OutgoingNotification]:
    poster = GuardedPoster(allowed_networks=("127.0.0.1/32",), clear_text_hosts=("127.0.0.1",))
    sender = WebhookSender(poster=poster, clock=lambda: 1_800_000_000.9)
    return sender, replace(TOLD, address=f"http://127.0.0.1:{receiver.port}/hook")


def mail() -> tuple[MailSender, OutgoingNotification]:
    sender = MailSender(sender="ledger@example.test", public_url="https://ledger.test")
    return sender, replace(TOLD, address="bob@example.test")


Kind = Callable[[str], tuple[NotificationSender, OutgoingNotification, Callable[[], int]]]


@pytest.fixture(params=["webhook", "mail", "simulated"])
def kind(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Kind]:
    """Return how a sender of a kind is made, with an other side that takes or refuses."""
    with ExitStack() as stack:

        def make(
            answer: str,
        ) -> tuple[NotificationSender, OutgoingNotification, Callable[[], int]]:
            if request.param == "webhook":
                receiver = stack.enter_context(receiving())
                if answer == "refused":
                    receiver.answer = b"HTTP/1.1 503 Busy\r\n\r\n"
                return (*webhook(receiver), lambda: len(receiver.posts))
            if request.param == "mail":
                server = stack.enter_context(mailbox())
                server.answer = b"250 ok" if answer == "taken" else b"451 later"
                settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
                settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
                return (*mail(), lambda: len(server.mails))
            SimulatedSender.purge()
            SimulatedSender.failing.update(("x@example.test",) if answer == "refused" else ())
            reported = replace(TOLD, address="x@example.test")
            return SimulatedSender(), reported, lambda: len(SimulatedSender.sent)

        yield make
    SimulatedSender.purge()


def test_returning_means_that_the_other_side_has_taken_it(kind: Kind) -> None:
    sender, reported, count = kind("taken")

    sender.send(reported)
    sender.send(reported)

    assert count() == 2


def test_what_is_not_taken_is_reported_so_that_it_is_tried_again(kind: Kind) -> None:
    sender, reported, _ = kind("refused")

    with pytest.raises(SourceUnavailableError) as refusal:
        sender.send(reported)

    assert refusal.value.reason in {"status_503", "mail_refused", "unreachable"}
    assert SECRET not in str(refusal.value)


def test_a_webhook_is_signed_json_that_says_which_event_it_is(receiver: Receiver) -> None:
    sender, reported = webhook(receiver)

    sender.send(reported)

    (got,) = receiver.posts
    assert json.loads(got.body) == {
        "id": "01890000-0000-7000-8000-000000000001",
        "event": "quotas:request:approved",
        "occurred_at": "2026-11-02T09:00:00+00:00",
        "organization": "acme",
        "subject": "8 large for LLM: approved",
        "text": reported.text,
        "facts": {"requested_units": 8, "project": "llm"},
    }
    expected = hmac.new(SECRET.encode(), b"1800000000." + got.body, hashlib.sha256).hexdigest()
    assert got.headers["X-GPU-Ledger-Signature"] == f"t=1800000000,v1={expected}"
    assert got.headers["X-GPU-Ledger-Event"] == "quotas:request:approved"
    assert got.headers["X-GPU-Ledger-Event-Id"] == str(reported.event_id)
    assert got.headers["Content-Type"] == "application/json"


def test_a_signature_is_what_others_compute() -> None:
    reported = signature(b"{}", secret=b"key", unix_seconds=1)

    assert reported == "t=1,v1=" + hmac.new(b"key", b"1.{}", hashlib.sha256).hexdigest()


def test_the_same_event_is_the_same_body() -> None:
    turned = replace(TOLD, facts=dict(reversed(list(TOLD.facts.items()))))

    assert body_of(turned) == body_of(TOLD)
    assert json.loads(body_of(replace(TOLD, organization="")))["organization"] is None


@pytest.mark.parametrize("reference", ["", "env:WEBHOOK_SECRET_GONE", "WEBHOOK_SECRET_ACME"])
def test_nothing_is_sent_unsigned(receiver: Receiver, reference: str) -> None:
    sender, reported = webhook(receiver)

    with pytest.raises(SourceUnavailableError) as refusal:
        sender.send(replace(reported, secret_reference=reference))

    assert refusal.value.reason == "secret_missing"
    assert receiver.posts == []


def test_a_mail_is_plain_text_that_a_person_reads(mails: MailServer) -> None:
    sender, reported = mail()

    sender.send(reported)

    read = message_from_bytes(mails.mails[0], policy=email.policy.default)
    assert read["Subject"] == "[GPU Ledger] 8 large for LLM: approved"
    assert (read["From"], read["To"]) == ("ledger@example.test", "bob@example.test")
    assert read["X-GPU-Ledger-Event-Id"] == str(reported.event_id)
    assert read["Auto-Submitted"] == "auto-generated"
    assert read.get_content_type() == "text/plain"
    assert read.get_content().splitlines() == [
        "LLM may hold 8 large from now on.",
        "",
        "Alice says: Für März.",
        "",
        "-- ",
        "GPU Ledger for acme, 2 November 2026, 09:00 UTC",
        "https://ledger.test",
        "You get this mail because of your role. Event: quotas:request:approved",
    ]


def test_a_mail_server_that_is_away_is_reported(mails: MailServer, settings: Settings) -> None:
    sender, reported = mail()
    settings.EMAIL_PORT = 1

    with pytest.raises(SourceUnavailableError) as refusal:
        sender.send(reported)

    assert refusal.value.reason == "mail_refused"
    assert mails.mails == []


@pytest.mark.parametrize(
    "address",
    ["a,b@x.test", "a;b@", "a:b@", "(x@", "a@x..test", "", "x@x.test\nBcc: y@x.test", "x@\ud800"],
)
def test_an_address_nobody_can_write_to_is_reported_as_such(
    mails: MailServer, address: str
) -> None:
    sender, reported = mail()

    with pytest.raises(SourceUnavailableError) as refusal:
        sender.send(replace(reported, address=address))
    sender.send(reported)

    assert refusal.value.reason == "address_invalid"
    assert len(mails.mails) == 1


def test_settings_choose_who_sends() -> None:
    senders = notification_senders(
        {
            "webhook": {
                "BACKEND": "tenants.adapters.notification_webhook.guarded_webhook_sender",
                "OPTIONS": {"allowed_networks": ["10.0.0.0/8"]},
            },
            "mail": {"BACKEND": "simulator.adapters.notification_sender.SimulatedSender"},
        }
    )

    assert [type(sender).__name__ for sender in senders.values()] == [
        "WebhookSender",
        "SimulatedSender",
    ]
