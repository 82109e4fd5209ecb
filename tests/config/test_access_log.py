"""The log of requests has no link that sets a password."""

from datetime import timedelta
from types import SimpleNamespace

from gunicorn.config import Config  # type: ignore[import-untyped] # It has no types.

from config.access_log import AccessLog


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
