"""No log has a link that sets a password."""

import logging
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from gunicorn.config import Config  # type: ignore[import-untyped] # It has no types.

from config.monitoring.logging import AccessLog


def test_a_link_of_a_mail_is_not_logged() -> None:
    secret = "/accounts/password/MQ/c9x-0123456789abcdef/"
    environ = {
        "REQUEST_METHOD": "GET",
        "RAW_URI": secret,
        "PATH_INFO": secret,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_REFERER": f"https://ledger.example.com{secret}",
    }
    answer = SimpleNamespace(status="200 OK", headers=[], sent=1)

    parts = AccessLog(Config()).atoms(
        answer, SimpleNamespace(headers=[("REFERER", secret)]), environ, timedelta(seconds=1)
    )

    assert parts["r"] == "GET /accounts/password/... HTTP/1.1"
    assert "c9x" not in str(parts)


def test_a_link_of_a_request_that_fails_is_not_logged_by_gunicorn() -> None:
    lines: list[str] = []
    log = AccessLog(Config())
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log.error_log.addHandler(handler)

    log.error("Error handling request %s %s", "POST", "/accounts/invitation/c9x-0123/")
    log.error_log.removeHandler(handler)

    assert lines == ["Error handling request POST /accounts/invitation/..."]


@pytest.mark.django_db
def test_a_link_that_is_refused_is_not_logged_by_django(caplog: pytest.LogCaptureFixture) -> None:
    secret = "c9x-0123456789abcdef"
    formatter = logging.getLogger().handlers[0].formatter
    assert formatter is not None

    Client(enforce_csrf_checks=True).post(f"/accounts/invitation/{secret}/", {"username": "x"})
    Client().get(f"/accounts/password/MQ/{secret}/more/")

    lines = [formatter.format(record) for record in caplog.records]
    assert ["/accounts/invitation/..." in lines[0], "/accounts/password/..." in lines[1]] == [
        True,
        True,
    ]
    assert secret not in str(lines)
