"""Notifications: names of events, patterns over them, addresses, and how far a delivery has come.

An event is named `<app>:<resource>:<verb>`, such as "quotas:request:approved". A pattern is an
event with `*` for any of its three parts, or `*` alone for everything.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from tenants.domain.errors import FieldProblem
from tenants.domain.notification_events import NOTIFICATION_EVENTS

PATTERNS_MAX: Final = 32
"""More than there are events of one app; `*` stands for all of them."""
ATTEMPTS_MAX: Final = 10
"""With the waits below a receiver may be away for two days; then a person has to look."""
WAITS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (30, 120, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
)
"""Between two attempts: soon after a hiccup, rarely during an outage."""
LEASE: Final = timedelta(minutes=5)
"""How long a claimed delivery is left alone: longer than any task may run (240 s)."""
SECRET_PREFIX: Final = "WEBHOOK_SECRET_"  # noqa: S105 - The start of a variable's name.
_PART: Final = r"(?:[a-z][a-z0-9_]*)"
_PATTERN: Final = re.compile(rf"\*|(?:{_PART}|\*)(?::(?:{_PART}|\*)){{2}}", re.ASCII)
_ATOM: Final = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_MAIL: Final = re.compile(
    rf"(?=[^@]{{1,64}}@.{{1,253}}\Z){_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+[a-z]{_LABEL}",
    re.ASCII | re.IGNORECASE,
)
"""One dot-atom at a host name with a dot; neither lists, groups, comments nor quotes. RFC 5321."""
_SECRET: Final = re.compile(rf"env:{SECRET_PREFIX}[A-Z0-9_]{{1,100}}", re.ASCII)
_EVENT_UNKNOWN: Final = (
    f"No event is called that. Use one of: {', '.join(sorted(NOTIFICATION_EVENTS))}."
)
_VISIBLE: Final = re.compile(r"[!-~]{1,500}", re.ASCII)


class EndpointKind(StrEnum):
    """The channel of a notification."""

    MAIL = "mail"
    WEBHOOK = "webhook"


def wants(patterns: Iterable[str], event: str) -> bool:
    """Whether any of the patterns matches an event."""
    return any(_matches(pattern, event) for pattern in patterns)


def _matches(pattern: str, event: str) -> bool:
    if pattern == "*":
        return True
    return all(
        part in ("*", said) for part, said in zip(pattern.split(":"), event.split(":"), strict=True)
    )


def wait_after(attempts: int) -> timedelta | None:
    """Return the backoff after a number of failed attempts; None when it is given up.

    Args:
        attempts: Attempts so far, 1 or more.
    """
    return None if attempts >= ATTEMPTS_MAX else WAITS[attempts - 1]


def pattern_problems(patterns: object, *, field: str = "events") -> tuple[FieldProblem, ...]:
    """Return what is wrong with a list of patterns."""
    if isinstance(patterns, str) or not isinstance(patterns, Sequence) or not patterns:
        return (FieldProblem(field, "not_a_list", 'List events, such as "quotas:request:*".'),)
    if len(patterns) > PATTERNS_MAX:
        return (FieldProblem(field, "too_many", f"List at most {PATTERNS_MAX} events."),)
    message = 'Use "*", or three parts such as "quotas:request:approved" or "quotas:request:*".'
    problems = []
    for position, pattern in enumerate(patterns):
        place = f"{field}.{position}"
        if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
            problems.append(FieldProblem(place, "not_an_event", message))
        elif not any(_matches(pattern, event) for event in NOTIFICATION_EVENTS):
            known = (
                f"No event is called that. Use one of: {', '.join(sorted(NOTIFICATION_EVENTS))}."
            )
            problems.append(FieldProblem(place, "event_unknown", known))
    return tuple(problems)


def muted_problems(names: Iterable[str]) -> tuple[FieldProblem, ...]:
    """Return which of the events that a person mutes do not exist."""
    return tuple(
        FieldProblem(f"muted_events.{position}", "event_unknown", _EVENT_UNKNOWN)
        for position, name in enumerate(names)
        if name not in NOTIFICATION_EVENTS
    )


def address_problems(
    kind: str, address: str, *, clear_text_hosts: Sequence[str]
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with the address of an endpoint.

    Args:
        kind: "mail" or "webhook".
        address: A mail address, or a URL.
        clear_text_hosts: Hosts that may be called over http, set by the operator.
    """
    if kind == EndpointKind.MAIL:
        if _MAIL.fullmatch(address):
            return ()
        return (FieldProblem("address", "not_a_mail_address", "Use one mail address."),)
    if _is_webhook(address, clear_text_hosts=clear_text_hosts):
        return ()
    message = "Use an https URL with a host, without user name, password or fragment."
    return (FieldProblem("address", "not_a_webhook_url", message),)


def secret_problems(kind: str, reference: str) -> tuple[FieldProblem, ...]:
    """Return the problem of a webhook without a secret's name, or of a mail with one.

    Only variables made for this can be named: a signature must never be made with another secret.
    """
    field = "secret_reference"
    if kind == EndpointKind.MAIL:
        if not reference:
            return ()
        return (FieldProblem(field, "not_for_mail", "Leave it out: mails are not signed."),)
    if _SECRET.fullmatch(reference):
        return ()
    message = f"Name the variable that holds the secret: env:{SECRET_PREFIX}<NAME>."
    return (FieldProblem(field, "not_a_reference", message),)


def _is_webhook(address: str, *, clear_text_hosts: Sequence[str]) -> bool:
    if not _VISIBLE.fullmatch(address) or "\\" in address:
        return False
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or port == 0 or "@" in parts.netloc or "#" in address:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in clear_text_hosts)


SECRETS_MAX: Final = 2
"""The new one and, while receivers change over, the one before."""
SECRET_BYTES: Final = range(24, 65)
_KEY_PREFIX: Final = "whsec_"


def signing_keys(value: str) -> tuple[bytes, ...]:
    """Return the keys of a variable that holds one secret or, for a rotation, two.

    Args:
        value: Secrets separated by white space, each `whsec_` and base64 of 24 to 64 bytes.

    Raises:
        ValueError: It holds none, too many, or what is no such secret.
    """
    texts = value.split()
    if not 1 <= len(texts) <= SECRETS_MAX:
        raise ValueError("not one or two secrets")
    keys = tuple(b64decode(_key_text(text), validate=True) for text in texts)
    if any(len(key) not in SECRET_BYTES for key in keys):
        raise ValueError("a secret is too short or too long")
    return keys


def _key_text(text: str) -> str:
    if not text.startswith(_KEY_PREFIX):
        raise ValueError("a secret has another form")
    return text.removeprefix(_KEY_PREFIX)


_REMEDIES: Final[Mapping[str, str]] = {
    "address_forbidden": "Use a public address, or let the operator allow its range in "
    "WEBHOOK_ALLOWED_NETWORKS. Then send it again.",
    "address_invalid": "Correct the mail address of the account or the endpoint; what is reported "
    "from then on is sent there.",
    "bad_answer": "Register the address of a program that speaks HTTP.",
    "document_missing": "Open the document: if its PDF cannot be made, the page says why. Then "
    "send it again.",
    "mail_refused": "Check the mail server of EMAIL_URL, and that it takes mail to this address. "
    "Then send it again.",
    "not_https": "Register an https address.",
    "secret_invalid": "Set the variable to one or two secrets, each whsec_ and base64 of 24 to 64 "
    "bytes, and restart the workers. Then send it again.",
    "secret_missing": "Set the variable that secret_reference names, and restart the workers. Then "
    "send it again.",
    "timeout": "Let the receiver answer within 5 s. Then send it again.",
    "unexpected": "Look for tenants.notifications.crashed in the log of the worker.",
    "unreachable": "Check that the receiver runs and that its certificate is trusted. Then send it "
    "again.",
}
_OF_STATUS: Final = "Let the receiver answer with a 2xx status. Then send it again."


def remedy_of(*, state: str, last_error: str) -> str:
    """Return what a person can do about a delivery that has failed for good; "" for any other.

    Args:
        state: pending, sent, skipped or given_up.
        last_error: Its reason, a colon and a sentence.
    """
    if state != "given_up":
        return ""
    reason = last_error.partition(":")[0]
    return _OF_STATUS if reason.startswith("status_") else _REMEDIES.get(reason, "")


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


def attempts_text(attempts: int) -> str:
    """Return how often it was tried, such as "3 of at most 10"."""
    return f"{attempts} of at most {ATTEMPTS_MAX}" if attempts else "none"


def result_text(*, state: str, attempts: int, sent_at: datetime | None, last_error: str) -> str:
    """Return the result of the last attempt as text, or why there was none.

    Args:
        state: pending, sent, skipped or given_up.
        attempts: Attempts so far.
        sent_at: When the receiver accepted it.
        last_error: The error of the last attempt, or why it was skipped.
    """
    if sent_at is not None:
        return f"Taken at {_moment(sent_at)}."
    if state == "skipped":
        return f"Not sent. {last_error}".strip()
    if not attempts:
        return "Not tried yet."
    failed = f"Failed: {last_error or 'no answer is known yet'}"
    return f"{failed} Given up." if state == "given_up" else failed


def next_attempt_text(*, state: str, next_at: datetime, at: datetime) -> str:
    """Return the time of the next attempt as text, such as "2026-10-05 13:00 UTC".

    Args:
        state: pending, sent, skipped or given_up.
        next_at: When it is due; while a worker has a lease, when the lease ends.
        at: Now.
    """
    if state != "pending":
        return "none"
    return "now due" if next_at <= at else _moment(next_at)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
