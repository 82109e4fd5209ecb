"""The embedded Valkey: reached in both of Celery's ways, killed, left behind."""

import signal
from pathlib import Path

import pytest
import redis
from kombu.connection import Connection
from pydantic import TypeAdapter

from config.env import RedisUrl
from embedded.ports import free_port
from embedded.programs import EmbeddedServerError, command_of
from embedded.valkey import EmbeddedValkey


@pytest.fixture
def valkey(state: Path) -> EmbeddedValkey:
    """Give a server that is not started yet."""
    return EmbeddedValkey(state / "valkey")


def client(server: EmbeddedValkey) -> redis.Redis:
    return redis.Redis.from_url(server.url(), decode_responses=True)


def test_celery_reaches_it_over_tcp_and_over_its_socket(valkey: EmbeddedValkey) -> None:
    valkey.start()

    for url in (valkey.url(), valkey.socket_url()):
        accepted = str(TypeAdapter(RedisUrl).validate_python(url))
        with Connection(accepted) as connection:  # type: ignore[no-untyped-call]
            queue = connection.SimpleQueue("doorbell")
            queue.put({"window": 7})
            message = queue.get(timeout=5)
            message.ack()
            queue.close()
        assert message.payload == {"window": 7}
    valkey.stop()


def test_a_password_is_needed_and_is_in_no_command_line(valkey: EmbeddedValkey) -> None:
    valkey.start()
    assert valkey.process is not None
    password = valkey.url().split(":")[2].split("@")[0]

    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=valkey.port).ping()

    assert not any(password in word for word in command_of(valkey.process.pid))
    assert (valkey.folder / "valkey.conf").stat().st_mode & 0o777 == 0o600
    valkey.stop()


def test_a_message_outlives_a_stop(valkey: EmbeddedValkey) -> None:
    valkey.start()
    with client(valkey) as connection:
        connection.lpush("celery", "message")
    valkey.stop()
    valkey.start()

    with client(valkey) as connection:
        assert connection.lrange("celery", 0, -1) == ["message"]
        assert connection.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    valkey.stop()


def test_a_killed_server_starts_again_on_its_port(state: Path) -> None:
    valkey = EmbeddedValkey(state / "valkey", port=free_port())
    valkey.start()
    assert valkey.process is not None
    before = valkey.url()

    valkey.process.send_signal(signal.SIGKILL)
    valkey.process.wait()
    assert valkey.is_ready() is False
    valkey.start()

    assert valkey.url() == before
    valkey.stop()


def test_a_server_left_behind_is_ended_before_the_next_start(state: Path) -> None:
    first = EmbeddedValkey(state / "valkey")
    first.start()
    assert first.process is not None

    second = EmbeddedValkey(state / "valkey")
    second.start()

    assert first.process.wait() == -signal.SIGKILL
    assert second.is_ready() is True
    second.stop()


def test_two_checkouts_run_side_by_side(state: Path, second_state: Path) -> None:
    one, two = EmbeddedValkey(state / "valkey"), EmbeddedValkey(second_state / "valkey")
    one.start()
    two.start()

    with client(one) as connection:
        connection.set("who", "one")
    with client(two) as connection:
        assert connection.get("who") is None
    one.stop()
    assert two.is_ready() is True
    two.stop()


def test_a_path_too_long_for_a_socket_leaves_tcp(state: Path) -> None:
    valkey = EmbeddedValkey(state / ("deep-" * 20) / "valkey")
    valkey.start()

    assert valkey.has_socket is False
    assert valkey.is_ready() is True
    with pytest.raises(EmbeddedServerError, match="use TCP"):
        valkey.socket_url()
    valkey.stop()


def test_a_taken_port_is_reported_with_the_end_of_the_log(state: Path, second_state: Path) -> None:
    first = EmbeddedValkey(state / "valkey")
    first.start()

    with pytest.raises(EmbeddedServerError, match="Address already in use"):
        EmbeddedValkey(second_state / "valkey", port=first.port).start()

    assert first.is_ready() is True
    first.stop()
