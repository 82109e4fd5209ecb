"""A broker that accepts connections and never answers, as one whose host was lost."""

import socket
import time

import pytest
from celery import Celery
from django.test import Client
from kombu.exceptions import OperationalError
from pytest_django.fixtures import Settings

from config.celery import BROKER_TIMEOUT_SECONDS, app, read_settings


@pytest.mark.soak
@pytest.mark.enable_socket
def test_a_broker_that_never_answers_keeps_a_publisher_for_seconds_only(
    settings: Settings,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        other = Celery("other", set_as_current=False)
        other.conf.broker_transport_options = dict(app.conf.broker_transport_options)
        read_settings(sender=other)
        began = time.monotonic()

        with pytest.raises(OperationalError):
            other.send_task("metering.tick_windows", retry=False, ignore_result=True)

    assert time.monotonic() - began < 3 * BROKER_TIMEOUT_SECONDS


@pytest.mark.django_db
@pytest.mark.enable_socket
def test_readiness_is_answered_at_once_while_the_broker_is_silent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        monkeypatch.setattr(app.conf, "broker_write_url", url)
        began = time.monotonic()

        answer = client.get("/readyz")

    assert time.monotonic() - began < 3
    assert answer.status_code == 200
    assert answer.json()["broker"].startswith("The broker does not answer")


def test_no_limit_is_shorter_than_a_worker_waits_for_a_message() -> None:
    options = app.conf.broker_transport_options

    with app.connection_for_read() as connection:
        waits = connection.transport.brpop_timeout
    assert waits < options["socket_timeout"] == options["socket_connect_timeout"] == 5
    assert options["socket_keepalive"] is True
