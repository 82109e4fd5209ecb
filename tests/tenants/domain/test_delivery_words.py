"""How far a telling has come is said in words, and no address shows a token."""

from datetime import UTC, datetime, timedelta

import pytest

from tenants.domain.notifications import (
    attempts_text,
    masked_address,
    next_attempt_text,
    result_text,
)

AT = datetime(2026, 10, 5, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "address", "shown"),
    [
        ("mail", "averylongnameofsomebody@example.com", "averylongnameofsomebody@example.com"),
        ("webhook", "https://hooks.example.com/gpu", "https://hooks.example.com/gpu"),
        (
            "webhook",
            "https://hooks.example.com:8443/services/T0/B0/abcdefghijklmnopqrst",
            "https://hooks.example.com:8443/services/T0/B0/\N{HORIZONTAL ELLIPSIS}",
        ),
        (
            "webhook",
            "https://hooks.example.com/gpu?token=hunter2&room=7",
            "https://hooks.example.com/gpu?\N{HORIZONTAL ELLIPSIS}",
        ),
        ("webhook", "https://hooks.example.com", "https://hooks.example.com"),
    ],
)
def test_an_address_is_shown_without_its_tokens(kind: str, address: str, shown: str) -> None:
    assert masked_address(kind, address) == shown


def test_tries_are_reported_with_how_many_there_may_be() -> None:
    assert [attempts_text(attempts) for attempts in (0, 3)] == ["none", "3 of at most 10"]


@pytest.mark.parametrize(
    ("state", "attempts", "sent_at", "last_error", "words"),
    [
        ("pending", 0, None, "", "Not tried yet."),
        ("pending", 1, None, "", "Failed: no answer is known yet"),
        (
            "pending",
            2,
            None,
            "status_500: It answered 500.",
            "Failed: status_500: It answered 500.",
        ),
        ("sent", 2, AT, "", "Taken at 2026-10-05 13:00 UTC."),
        ("skipped", 0, None, "Its endpoint was closed.", "Not sent. Its endpoint was closed."),
        ("skipped", 0, None, "", "Not sent."),
        (
            "given_up",
            10,
            None,
            "unreachable: Nobody is there.",
            "Failed: unreachable: Nobody is there. Given up.",
        ),
    ],
)
def test_the_last_result_is_a_sentence(
    state: str, attempts: int, sent_at: datetime | None, last_error: str, words: str
) -> None:
    reported = result_text(state=state, attempts=attempts, sent_at=sent_at, last_error=last_error)

    assert reported == words


@pytest.mark.parametrize(
    ("state", "seconds", "words"),
    [
        ("pending", 90, "2026-10-05 13:01 UTC"),
        ("pending", 0, "now due"),
        ("sent", 30, "none"),
        ("given_up", 30, "none"),
    ],
)
def test_only_what_is_on_its_way_is_tried_again(state: str, seconds: int, words: str) -> None:
    reported = next_attempt_text(state=state, next_at=AT + timedelta(seconds=seconds), at=AT)

    assert reported == words
