"""The doctor's checks of the mail server and of export destinations: nothing is sent."""

from collections.abc import Iterator
from smtplib import SMTPAuthenticationError

import pytest
from pytest_django import Settings

from billing.models import ExportSchedule
from config.doctor import delivery
from config.doctor.delivery import check_export, check_mail
from config.doctor.findings import CheckResult
from simulator.adapters.export_destination import SimulatedDestination
from tenants.domain.errors import SourceUnavailableError
from tests.support.tenants.receivers import MailServer, mailbox

SMTP = "django.core.mail.backends.smtp.EmailBackend"


def mail() -> CheckResult:
    (result,) = check_mail()
    return result


def export(target: str = "bucket", address: str = "https://s3.test/ledger") -> CheckResult:
    (result,) = check_export(
        ExportSchedule(slug="erp", target=target, address=address, secret_reference="env:NONE")
    )
    return result


def test_a_mail_server_is_signed_in_at_and_gets_no_mail(settings: Settings) -> None:
    settings.EMAIL_BACKEND = SMTP
    with mailbox() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
        found = mail()

    assert (found.state, found.found) == (
        "ok",
        f"127.0.0.1:{settings.EMAIL_PORT} takes our connection without TLS; nothing was sent.",
    )
    assert server.mails == []


def test_a_login_that_the_mail_server_does_not_know_shows_no_password(settings: Settings) -> None:
    settings.EMAIL_BACKEND = SMTP
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "ledger", "a-secret"
    with mailbox() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
        found = mail()

    assert found.state == "problem"
    assert found.remedy.endswith(".")
    assert "a-secret" not in f"{found}"


def test_a_mail_server_that_is_away_or_not_set_is_named(settings: Settings) -> None:
    settings.EMAIL_BACKEND = SMTP
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    away = mail()
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    unset = mail()
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    filed = mail()

    assert (away.state, away.found) == (
        "problem",
        "The mail server cannot be reached: ConnectionRefusedError.",
    )
    assert away.remedy == "Check host and port in EMAIL_URL, and that this host may reach it."
    assert unset.state == filed.state == "warning"
    assert unset.remedy.startswith("Set EMAIL_URL, such as smtp://")
    assert filed.found == "Mails go to filebased, not to a mail server."


def test_an_export_is_reached_or_named_with_the_remedy_of_its_runs() -> None:
    reached = export()
    SimulatedDestination.failing.add("https://s3.test/away")
    away = export(address="https://s3.test/away")
    SimulatedDestination.purge()

    assert (reached.state, reached.found) == (
        "ok",
        "erp, bucket at s3.test: reached; nothing was written.",
    )
    assert (away.state, away.found) == (
        "problem",
        "erp, bucket at s3.test: Nothing answers there.",
    )
    assert away.remedy == "Check that the server runs and can be reached from the workers."
    assert SimulatedDestination.delivered == {}


def test_an_export_by_mail_without_a_mail_server_is_a_problem(settings: Settings) -> None:
    settings.EXPORT_DESTINATIONS = {}

    found = export("mail", "erp@acme.test")

    assert (found.state, found.remedy) == ("problem", "Set EMAIL_URL, and restart the workers.")


def test_tokens_in_addresses_are_not_shown() -> None:
    found = export("webhook", "https://hooks.test/services/a-secret-token")

    assert found.found == "erp, webhook at hooks.test: reached; nothing was written."


@pytest.fixture
def smtp(settings: Settings) -> Iterator[MailServer]:
    settings.EMAIL_BACKEND = SMTP
    with mailbox() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
        yield server


@pytest.mark.usefixtures("smtp")
def test_a_server_that_speaks_no_tls_is_a_problem(settings: Settings) -> None:
    settings.EMAIL_USE_SSL = True
    found = mail()

    assert (found.state, found.found) == ("problem", "The mail server does not prove who it is.")
    assert found.remedy.startswith("Use the name that its certificate is for")


@pytest.mark.usefixtures("smtp")
def test_a_server_without_starttls_is_a_problem(settings: Settings) -> None:
    settings.EMAIL_USE_TLS = True
    found = mail()

    assert (found.state, found.found) == (
        "problem",
        "The mail server cannot be reached: SMTPNotSupportedError.",
    )


def test_a_password_over_plain_smtp_is_a_warning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_BACKEND = SMTP
    settings.EMAIL_HOST, settings.EMAIL_PORT = "mail.test", 25
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "ledger", "a-secret"
    monkeypatch.setattr(delivery, "reach_mail_server", lambda: None)

    found = mail()

    assert (found.state, found.found) == (
        "warning",
        "mail.test:25 admits us, but the password is sent without TLS.",
    )
    assert found.remedy == "Use smtps://, or append ?starttls=true to EMAIL_URL."


def test_a_login_that_is_refused_is_named_by_its_code(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_BACKEND = SMTP

    def refuse(_: object) -> None:
        raise SMTPAuthenticationError(535, b"a-secret is wrong")

    monkeypatch.setattr("django.core.mail.backends.smtp.EmailBackend.open", refuse)
    found = mail()

    assert (found.state, found.found) == (
        "problem",
        "The mail server does not admit this user (code 535).",
    )
    assert found.remedy == "Correct user and password in EMAIL_URL."


def test_a_key_that_may_only_write_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, __: object) -> None:
        raise SourceUnavailableError("The key may not ask.", reason="not_shown")

    monkeypatch.setattr(SimulatedDestination, "check", refuse)
    found = export()

    assert (found.state, found.found) == ("warning", "erp, bucket at s3.test: The key may not ask.")
    assert found.remedy == "Allow the key to list the bucket, or see the next run."
