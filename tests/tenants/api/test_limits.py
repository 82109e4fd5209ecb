"""Requests of an account in a minute: counted, told in every answer, refused beyond the limit."""

from collections.abc import Iterator

import pytest
import redis
from django.test import Client
from pytest_django import Settings
from structlog.testing import capture_logs

from embedded.valkey import EmbeddedValkey
from tenants.adapters.request_counts import RequestCounts, request_counts
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem

LIMIT = 3
HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


@pytest.fixture
def limited(valkey: EmbeddedValkey, settings: Settings) -> Iterator[None]:
    with redis.Redis.from_url(valkey.url()) as client:
        client.flushall()
    settings.REDIS_URL, settings.API_REQUESTS_PER_MINUTE = valkey.url(), LIMIT
    request_counts.cache_clear()
    yield
    request_counts.cache_clear()


def told(answer: object) -> list[str]:
    return [answer.headers.get(name, "") for name in HEADERS]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("limited")
def test_each_answer_says_how_many_are_left_and_the_next_is_refused(cast: Cast) -> None:
    client = api_client(cast.alice)

    answers = [client.get("/api/v1/me/") for _ in range(LIMIT)]
    known = client.get("/api/v1/me/")

    assert [told(answer)[1] for answer in answers] == ["2", "1", "0"]
    assert told(answers[0])[0] == str(LIMIT)
    assert 0 < int(told(answers[0])[2]) <= 60
    assert told(known)[1] == "0"
    assert problem(known) == (429, "too_many_requests")
    assert int(known["Retry-After"]) == known.json()["facts"]["retry_after_seconds"] > 0


@pytest.mark.usefixtures("limited")
def test_tokens_and_browsers_of_an_account_count_together_and_others_apart(cast: Cast) -> None:
    browser = Client()
    browser.force_login(cast.alice)

    refused = api_client(cast.alice).get("/api/v1/projects/?page_size=0")
    listed = browser.get("/api/v1/projects/")
    same = browser.get("/api/v1/projects/", headers={"If-None-Match": listed["ETag"]})
    other = api_client(cast.bob).get("/api/v1/projects/")

    assert refused.status_code == 422
    assert [told(answer)[1] for answer in (refused, listed, same, other)] == ["2", "1", "0", "2"]
    assert same.status_code == 304


def test_requests_are_answered_while_valkey_is_away_and_none_waits_for_it(
    cast: Cast, settings: Settings
) -> None:
    settings.API_REQUESTS_PER_MINUTE = LIMIT
    request_counts.cache_clear()
    client = api_client(cast.alice)

    with capture_logs() as logs:
        answers = [client.get("/api/v1/me/") for _ in range(LIMIT + 2)]
    request_counts.cache_clear()

    assert {answer.status_code for answer in answers} == {200}
    assert told(answers[0]) == ["", "", ""]
    assert [line["event"] for line in logs].count("api.requests.not_counted") == 1


def test_a_minute_ends(valkey: EmbeddedValkey) -> None:
    counts = RequestCounts(valkey.url())
    with redis.Redis.from_url(valkey.url()) as client:
        client.flushall()
        assert [counts.count("alice").made for _ in range(2)] == [1, 2]  # type: ignore[union-attr]
        client.expire("requests:alice", 0)
        assert counts.count("alice").made == 1  # type: ignore[union-attr]
