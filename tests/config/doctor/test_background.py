"""The doctor's checks of broker, workers and beat, against a Valkey of our own."""

import time
from collections.abc import Iterator

import pytest
import redis

from config.celery import QUEUES
from config.doctor.background import check_background
from config.doctor.findings import CheckResult
from embedded.valkey import EmbeddedValkey


@pytest.fixture
def client(valkey: EmbeddedValkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey.url()) as found:
        found.flushall()
        yield found
        found.config_set("maxmemory-policy", "noeviction")
        found.config_set("maxmemory", 0)


def findings(valkey: EmbeddedValkey) -> dict[str, CheckResult]:
    return {result.check: result for result in check_background(valkey.url())}


def take(client: redis.Redis, *queues: str) -> None:
    for queue in queues:
        client.set(f"taken:{queue}", int(time.time()))


def test_queues_that_are_served_are_well(valkey: EmbeddedValkey, client: redis.Redis) -> None:
    take(client, *QUEUES)

    found = findings(valkey)

    assert [(name, one.state) for name, one in found.items()] == [
        ("broker", "ok"),
        ("workers", "ok"),
        ("beat", "ok"),
    ]
    assert found["broker"].found.startswith("Valkey ")


def test_messages_that_nobody_takes_miss_a_worker(
    valkey: EmbeddedValkey, client: redis.Redis
) -> None:
    take(client, "celery", "short")
    client.lpush("metering", "a message", "another")

    found = findings(valkey)

    assert found["workers"].state == "problem"
    assert found["workers"].found == (
        "No worker has taken a message of metering for 300 s, and 2 wait."
    )
    assert found["workers"].remedy == (
        "Start a worker for each queue: `celery -A config worker --queues metering`."
    )
    assert found["beat"].state == "ok"


def test_queues_that_stay_empty_miss_beat(valkey: EmbeddedValkey, client: redis.Redis) -> None:
    found = findings(valkey)

    assert client.dbsize() == 0
    assert (found["workers"].state, found["beat"].state) == ("warning", "problem")
    assert found["beat"].found == "Beat has sent nothing to celery, metering, short for 300 s."
    assert found["beat"].remedy == "Start it: `celery -A config beat`; two at once do no harm."


def test_a_broker_that_evicts_messages_is_a_warning(
    valkey: EmbeddedValkey, client: redis.Redis
) -> None:
    client.config_set("maxmemory", 256 * 2**20)
    client.config_set("maxmemory-policy", "allkeys-lru")

    broker = findings(valkey)["broker"]

    assert broker.state == "warning"
    assert "with maxmemory-policy allkeys-lru it drops messages above 256 MiB" in broker.found
    assert broker.remedy == "Set maxmemory-policy noeviction."


def test_a_broker_that_is_away_is_one_problem_without_its_password() -> None:
    (result,) = check_background("redis://:a-secret@127.0.0.1:1/0")

    assert (result.check, result.state) == ("broker", "problem")
    assert result.found == "Valkey does not answer (OperationalError): no worker is woken."
    assert result.remedy == (
        "Start it, and check REDIS_URL, and REDIS_SENTINELS where they are set."
    )
