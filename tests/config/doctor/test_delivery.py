"""The doctor's checks of the mail server and of export destinations: nothing is sent."""

from pytest_django import Settings

from billing.models import ExportSchedule
from config.doctor.delivery import check_export, check_mail
from config.doctor.findings import CheckResult
from simulator.adapters.export_destination import SimulatedDestination
from tests.support.tenants.receivers import mailbox

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
