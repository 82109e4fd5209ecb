"""Events, patterns over them, addresses, and waits between attempts."""

from datetime import timedelta

import pytest
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.notification_events import NOTIFICATION_EVENTS
from tenants.domain.notifications import (
    ATTEMPTS_MAX,
    PATTERNS_MAX,
    address_problems,
    pattern_problems,
    secret_problems,
    wait_after,
    wants,
)

NAMES = st.sampled_from(sorted(NOTIFICATION_EVENTS))


@pytest.mark.parametrize(
    ("pattern", "is_wanted"),
    [
        ("*", True),
        ("quotas:request:approved", True),
        ("quotas:request:*", True),
        ("quotas:*:approved", True),
        ("*:*:*", True),
        ("quotas:request:rejected", False),
        ("metering:*:*", False),
    ],
)
def test_a_star_stands_for_any_part(pattern: str, *, is_wanted: bool) -> None:
    assert wants([pattern], "quotas:request:approved") is is_wanted
    assert wants(["tenants:x:y", pattern], "quotas:request:approved") is is_wanted


@given(NAMES, NAMES)
def test_a_pattern_without_a_star_is_one_event(pattern: str, event: str) -> None:
    assert pattern_problems([pattern]) == ()
    assert wants([pattern], event) is (pattern == event)
    assert wants([], event) is False


@pytest.mark.parametrize("patterns", ["*", None, [], {}, 3])
def test_patterns_are_a_list_of_at_least_one(patterns: object) -> None:
    (problem,) = pattern_problems(patterns)

    assert (problem.field, problem.code) == ("events", "not_a_list")


def test_every_wrong_pattern_is_reported_with_its_place() -> None:
    problems = pattern_problems(["*", "quotas:*", 3, "quotas:request:*", "a:b:c:d"])

    assert [(p.field, p.code) for p in problems] == [
        ("events.1", "not_an_event"),
        ("events.2", "not_an_event"),
        ("events.4", "not_an_event"),
    ]


@pytest.mark.parametrize(
    "pattern", ["quotas:requests:*", "config:*:*", "quotas:request:aproved", "*:*:exploded"]
)
def test_a_pattern_that_no_event_matches_is_refused_with_the_known_ones(pattern: str) -> None:
    (problem,) = pattern_problems(["*:loan:*", pattern])

    assert (problem.field, problem.code) == ("events.1", "event_unknown")
    assert all(event in problem.message for event in NOTIFICATION_EVENTS)


def test_a_list_of_patterns_ends_somewhere() -> None:
    assert pattern_problems(["*"] * PATTERNS_MAX) == ()
    (problem,) = pattern_problems(["*"] * (PATTERNS_MAX + 1))
    assert problem.code == "too_many"


def test_waits_grow_and_end_after_two_days() -> None:
    waits = [wait_after(attempts) for attempts in range(1, ATTEMPTS_MAX)]
    known = [wait for wait in waits if wait is not None]

    assert len(known) == ATTEMPTS_MAX - 1
    assert known == sorted(known)
    assert known[0] == timedelta(seconds=30)
    assert timedelta(days=1.9) < sum(known, timedelta()) < timedelta(days=2.1)
    assert wait_after(ATTEMPTS_MAX) is None


@pytest.mark.parametrize("address", ["lead@example.com", "a.b+c@mail.example.org", "X@Y.zz"])
def test_a_mail_address_is_taken(address: str) -> None:
    assert address_problems("mail", address, clear_text_hosts=()) == ()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "lead",
        "lead@",
        "@example.com",
        "a@b@c.de",
        "a b@c.de",
        "a@b.cd\nBcc: d@e.fg",
        "Ä@example.com",
        "a,b@x.test",
        "a;b@x.test",
        "a:b@x.test",
        "(x@x.test",
        "<x>@x.test",
        '"x"@x.test',
        "x\\@x.test",
        "[x@x.test",
        ".x@x.test",
        "x.@x.test",
        "x..y@x.test",
        "a@x..test",
        "a@-x.test",
        "a@x-.test",
        "a@x.t",
        "a@host",
        "a@[127.0.0.1]",
        "a" * 65 + "@x.test",
        "a@" + "x" * 64 + ".test",
        "a@" + "x." * 126 + "test",
    ],
)
def test_what_is_no_mail_address_is_refused(address: str) -> None:
    (problem,) = address_problems("mail", address, clear_text_hosts=())

    assert (problem.field, problem.code) == ("address", "not_a_mail_address")


PIECES = st.sampled_from(["a", "b1", "x-y", "_", "+", "'", "/", ".", ".", ",", '"', "@", "-", " "])


@given(st.lists(PIECES, max_size=6), st.lists(PIECES, max_size=4))
def test_what_is_taken_for_a_mail_address_can_be_written_to(
    local: list[str], host: list[str]
) -> None:
    address = f"{''.join(local)}@{''.join(host)}.test"
    if address_problems("mail", address, clear_text_hosts=()):
        return

    validate_email(address)
    assert sanitize_address(address, "utf-8") == address


@pytest.mark.parametrize(
    "address",
    ["https://hooks.example.com/a?b=c", "https://[2001:db8::1]:8443/x", "http://inside/hook"],
)
def test_a_webhook_is_https_unless_the_operator_named_its_host(address: str) -> None:
    assert address_problems("webhook", address, clear_text_hosts=("inside",)) == ()


@pytest.mark.parametrize(
    "address",
    [
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "https://",
        "https:///path",
        "https://user:pass@hooks.example.com/",
        "https://@hooks.example.com/",
        "https://hooks.example.com/#here",
        "https://hooks.example.com/a b",
        "https://hooks.example.com/\r\nX: y",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com\\@evil.example/",
        "https://[::1/",
        "https://ho\u0308oks.example.com/",
        "https://hooks.example.com/" + "x" * 500,
        "hooks.example.com",
    ],
)
def test_what_is_no_webhook_is_refused(address: str) -> None:
    (problem,) = address_problems("webhook", address, clear_text_hosts=("inside",))

    assert (problem.field, problem.code) == ("address", "not_a_webhook_url")


@pytest.mark.parametrize(
    ("kind", "reference", "codes"),
    [
        ("mail", "", []),
        ("mail", "env:WEBHOOK_SECRET_A", ["not_for_mail"]),
        ("webhook", "env:WEBHOOK_SECRET_ACME_1", []),
        ("webhook", "", ["not_a_reference"]),
        ("webhook", "env:SECRET_KEY", ["not_a_reference"]),
        ("webhook", "env:WEBHOOK_SECRET_", ["not_a_reference"]),
        ("webhook", "file:/etc/shadow", ["not_a_reference"]),
        ("webhook", "hunter2", ["not_a_reference"]),
    ],
)
def test_only_secrets_made_for_webhooks_can_be_named(
    kind: str, reference: str, codes: list[str]
) -> None:
    assert [problem.code for problem in secret_problems(kind, reference)] == codes
