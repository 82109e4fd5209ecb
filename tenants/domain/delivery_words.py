"""How far a telling has come, in words, and addresses without what only their owners may know."""

from datetime import datetime
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from tenants.domain.notification_rules import ATTEMPTS_MAX, EndpointKind

MASK: Final = "\N{HORIZONTAL ELLIPSIS}"
SECRET_LENGTH: Final = 20
"""A part of a path this long is taken for a token, as chat services put them into addresses."""


def masked_address(kind: str, address: str) -> str:
    """Return an address as it may be shown: a webhook's without tokens in its path or query.

    Args:
        kind: "mail" or "webhook".
        address: A mail address, or a URL.
    """
    if kind != EndpointKind.WEBHOOK:
        return address
    parts = urlsplit(address)
    path = "/".join(MASK if len(part) >= SECRET_LENGTH else part for part in parts.path.split("/"))
    return urlunsplit((parts.scheme, parts.netloc, path, MASK if parts.query else "", ""))


def tries_words(attempts: int) -> str:
    """Return how often it was tried, such as "3 of at most 10"."""
    return f"{attempts} of at most {ATTEMPTS_MAX}" if attempts else "none"


def result_words(*, state: str, attempts: int, sent_at: datetime | None, last_error: str) -> str:
    """Return what came of the last try, or why there was none.

    Args:
        state: pending, sent, skipped or given_up.
        attempts: How often it was tried.
        sent_at: When it was taken.
        last_error: What was told of the last failure, or why it was skipped.
    """
    if sent_at is not None:
        return f"Taken at {_moment(sent_at)}."
    if state == "skipped":
        return f"Not sent. {last_error}".strip()
    if not attempts:
        return "Not tried yet."
    failed = f"Failed: {last_error or 'no answer is known yet'}"
    return f"{failed} Given up." if state == "given_up" else failed


def next_try_words(*, state: str, next_at: datetime, at: datetime) -> str:
    """Return when it is tried next, such as "2026-10-05 13:00 UTC".

    Args:
        state: pending, sent, skipped or given_up.
        next_at: When it is due; while somebody is at it, when their claim ends.
        at: Now.
    """
    if state != "pending":
        return "none"
    return "now due" if next_at <= at else _moment(next_at)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
