"""The contract of senders, held by all three; and what each writes, as its reader gets it."""

import email.policy
import json
from base64 import b64decode
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
from tenants.adapters.notification_mail import ATTACHED_BYTES_MAX, MailSender
from tenants.adapters.notification_webhook import WebhookSender, body_of, signature_headers
from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import MailAttachment, NotificationSender, OutgoingNotification
from tests.support.builders import AT
from tests.support.tenants.receivers import MailServer, Receiver, mailbox, receiving

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
OLD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOLD = OutgoingNotification(
    event_id=UUID("01890000-0000-7000-8000-000000000001"),
    event="quotas:request:approved",
    occurred_at=AT,
    organization="acme",
    subject="8 large for LLM: approved",
    text="LLM may hold 8 large from now on.\n\nAlice says: Für März.\n",
    facts={"requested_units": 8, "project": "llm", "request": "r1"},
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
    sender = MailSender(
        sender="ledger@example.test",
        public_url="https://ledger.test",
        links={"quotas:request:approved": "/app/requests/{request}/"},
        preferences_path="/app/notifications/",
    )
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
        "facts": {"requested_units": 8, "project": "llm", "request": "r1"},
    }
    assert got.headers["webhook-id"] == str(reported.event_id)
    assert got.headers["webhook-timestamp"] == "1800000000"
    assert got.headers["webhook-signature"].startswith("v1,")
    assert got.headers["Content-Type"] == "application/json"


def test_a_signature_is_that_of_standard_webhooks() -> None:
    # The vector of the specification and of its libraries.
    headers = signature_headers(
        b'{"test": 2432232314}',
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        keys=[b64decode(OLD_SECRET.removeprefix("whsec_"))],
        unix_seconds=1614265330,
    )

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_during_a_rotation_both_secrets_sign(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, reported = webhook(receiver)
    sender.send(reported)
    monkeypatch.setenv("WEBHOOK_SECRET_ACME", f"{OLD_SECRET} {SECRET}")

    sender.send(reported)

    before, during = (post.headers["webhook-signature"].split() for post in receiver.posts)
    assert len(during) == 2
    assert during[1:] == before


@pytest.mark.parametrize(
    "value", ["plain", "whsec_!", "whsec_AAAA", f"{SECRET} {SECRET} {SECRET}", f"{SECRET},x"]
)
def test_nothing_is_signed_with_another_form_of_secret(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET_ACME", value)
    sender, reported = webhook(receiver)

    with pytest.raises(SourceUnavailableError) as refusal:
        sender.send(reported)

    assert refusal.value.reason == "secret_invalid"
    assert value not in str(refusal.value)
    assert receiver.posts == []


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


def test_a_mail_is_text_and_the_same_as_html(mails: MailServer) -> None:
    sender, reported = mail()

    sender.send(replace(reported, text=f"{reported.text}<b>&"))

    read = message_from_bytes(mails.mails[0], policy=email.policy.default)
    assert read["Subject"] == "[GPU Ledger] 8 large for LLM: approved"
    assert (read["From"], read["To"]) == ("ledger@example.test", "bob@example.test")
    assert read["X-GPU-Ledger-Event-Id"] == str(reported.event_id)
    assert read["Auto-Submitted"] == "auto-generated"
    text, html = (part.get_content() for part in read.iter_parts())
    assert text.splitlines() == [
        "LLM may hold 8 large from now on.",
        "",
        "Alice says: Für März.",
        "<b>&",
        "",
        "Open in GPU Ledger: https://ledger.test/app/requests/r1/",
        "",
        "-- ",
        "GPU Ledger for acme, 2026-11-02 09:00 UTC",
        "Event: quotas:request:approved",
        "People choose what they are mailed about:",
        "https://ledger.test/app/notifications/",
    ]
    assert "Alice says: Für März.<br>&lt;b&gt;&amp;" in html
    assert '<a href="https://ledger.test/app/requests/r1/"' in html
    assert "<b>" not in html


def test_a_document_is_attached_unless_it_is_too_large(mails: MailServer) -> None:
    sender, reported = mail()
    files = tuple(
        MailAttachment(f"{name}.pdf", "application/pdf", b"%PDF" + b"x" * size)
        for name, size in (("small", 10), ("large", ATTACHED_BYTES_MAX))
    )

    sender.send(replace(reported, language="de", attachments=files))

    read = message_from_bytes(mails.mails[0], policy=email.policy.default)
    (attached,) = read.iter_attachments()
    body = read.get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert (attached.get_filename(), attached.get_content()) == ("small.pdf", files[0].content)
    assert "Anhang: small.pdf" in text
    assert "Zu groß für den Anhang: large.pdf" in text


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
