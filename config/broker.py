"""The broker's side of Celery: unreadable messages are dropped, logged and counted.

Celery's worker ends when one message of its queue is no JSON, or no envelope of a message: fifty of
them kept a worker from working for a quarter of an hour. Losing a message costs nothing here, since
the tables say what is due; so whatever one message does wrong, the worker goes on with the next.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog
from celery.worker.consumer import Consumer
from kombu.transport import redis
from redis.exceptions import ConnectionError as BrokerConnectionError

UNREADABLE: Final = (ValueError, RecursionError)
"""What a text raises that is no JSON, no UTF-8, or nested without end."""
UNUSED: Final = ("eta", "expires", "compression")
"""A wake-up has none of these."""
DROPPED: Final = "broker.message.dropped"
"""As it is logged, and counted in `gpu_ledger_sweep_crashes_total`."""

logger = structlog.get_logger(__name__)


class TolerantChannel(redis.Channel):
    """Reads messages from lists; one that is no JSON is dropped."""

    def _brpop_read(self, **options: Any) -> bool:  # noqa: ANN401 - Kombu's signature.
        try:
            return bool(super()._brpop_read(**options))  # type: ignore[no-untyped-call]
        except UNREADABLE as error:
            drop(error)
            return True


class TolerantTransport(redis.Transport):
    """Hands messages to their consumers; one that raises is dropped."""

    Channel = TolerantChannel

    def _deliver(self, message: Any, queue: str) -> None:  # noqa: ANN401 - Any JSON.
        try:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
        except (OSError, BrokerConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - Whatever a message is, it ends no worker.
            self._acknowledge(message)
            drop(error)

    def _acknowledge(self, message: Any) -> None:  # noqa: ANN401 - As above.
        """Release a message's slot in the worker's prefetch count, if it has one."""
        with suppress(KeyError, TypeError):
            tag = message["properties"]["delivery_tag"]
            for channel in self.channels:
                if tag in channel.qos._delivered:  # noqa: SLF001 - Kombu has no other way to ask.
                    channel.basic_reject(tag, requeue=False)


class TolerantSentinelChannel(TolerantChannel, redis.SentinelChannel):
    """The same of the primary that sentinels name."""


class TolerantSentinelTransport(TolerantTransport, redis.SentinelTransport):
    """The same of the primary that sentinels name; each connection asks them anew."""

    Channel = TolerantSentinelChannel


class TolerantConsumer(Consumer):  # type: ignore[misc] # Celery has no types.
    """Consumes wake-ups; what names no task of ours, or is none, is dropped."""

    def create_task_handler(self, *given: Any, **named: Any) -> Callable[[Any], object]:  # noqa: ANN401
        """Return Celery's handler with a check of the fields that it passes to the pool unchecked.

        An invalid time limit would be noticed only after the pool's slot is taken, and the slot
        would never be free again.
        """
        handle = super().create_task_handler(*given, **named)

        def handle_wake_up(message: Any) -> object:  # noqa: ANN401 - Celery's.
            if _is_plain(message.headers):
                return handle(message)
            self.on_invalid_task(None, message, TypeError())
            return None

        return handle_wake_up

    def on_decode_error(self, message: Any, exc: Exception) -> None:  # noqa: ANN401 - Celery's.
        """Drop a message whose body cannot be decoded."""
        message.ack_log_error(logger, self.connection_errors)
        drop(exc)

    def on_unknown_message(self, body: object, message: Any) -> None:  # noqa: ANN401, ARG002
        """Drop a message that is no task."""
        message.reject_log_error(logger, self.connection_errors)
        drop(TypeError())

    def on_unknown_task(self, body: object, message: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002
        """Drop a task that is none of ours, such as one of an older version."""
        message.reject_log_error(logger, self.connection_errors)
        drop(exc)

    def on_invalid_task(self, body: object, message: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002
        """Drop a task whose message contradicts itself."""
        message.reject_log_error(logger, self.connection_errors)
        drop(exc)


def _is_plain(headers: object) -> bool:
    return (
        isinstance(headers, dict)
        and isinstance(headers.get("id"), str)
        and _is_limits(headers.get("timelimit"))
        and not any(headers.get(name) for name in UNUSED)
    )


def _is_limits(value: object) -> bool:
    """Whether it is the hard and the soft time limit of a task, in seconds, or neither."""
    if not isinstance(value, list):
        return value is None
    return len(value) == len(("hard", "soft")) and all(isinstance(n, int | None) for n in value)


def drop(error: Exception) -> None:
    """Log and count a message that was dropped; a database that is away keeps no worker.

    What the message says is not logged: it may be anything.
    """
    from django.db import DatabaseError, connection  # noqa: PLC0415 - Celery is set up first.
    from django.utils import timezone  # noqa: PLC0415 - As above.

    from tenants.services.turns import count_crash  # noqa: PLC0415 - As above.

    logger.error(DROPPED, reason=type(error).__name__)
    try:
        count_crash(error, event=DROPPED, key="", at=timezone.now())
    except DatabaseError as away:
        logger.warning("broker.message.count_failed", reason=type(away).__name__)
    finally:
        # Processes that meter are forked from this one; they must not inherit its connection.
        connection.close()
