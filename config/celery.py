"""Celery: it wakes workers. PostgreSQL says what is due; no message represents a row.

All that is published goes through `tenants.services.wakeups`, beat's entries too: two beats may
run, and nothing piles up while no worker consumes. The limits follow one law: hard time limit <
visibility timeout, so that no task runs twice at once.
"""

import gc
import os
from typing import Final
from urllib.parse import urlsplit

from celery import Celery, Task
from celery.signals import task_failure, worker_process_init
from kombu.entity import Queue
from kombu.transport import TRANSPORT_ALIASES

THRESHOLDS: Final = (100_000, 50, 100)
"""Objects before a young collection, and young ones before older; Python's own are 700, 10, 10."""


def calm_collector() -> None:
    """Collect seldom from now on, and never again what the process started with.

    To look through all that was loaded takes a fifth of a second, in the middle of some request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


VISIBILITY_TIMEOUT_SECONDS = 600
TASK_TIME_LIMIT_SECONDS = 240
TASK_SOFT_TIME_LIMIT_SECONDS = 200
BROKER_TIMEOUT_SECONDS = 5
"""Longer than a worker waits for a message in one command, which is a second."""
QUEUES = ("celery", "metering", "short")
"""One for the kinds in general, one for those with a backlog, one for those that must not wait."""
ROUTES: Final = {
    "metering.collect_devices": {"queue": "metering"},
    "metering.meter_windows": {"queue": "metering"},
    "metering.recheck_windows": {"queue": "metering"},
    "quotas.tick_live_use": {"queue": "short"},
    "quotas.tick_enforcement": {"queue": "short"},
    "tenants.tick_notifications": {"queue": "short"},
    "tenants.tick_password_links": {"queue": "short"},
}
TRANSPORT_OPTIONS: Final = {
    # Also bounded by the wall clock, which would keep it trying where that is put back.
    "max_retries": 2,
    "visibility_timeout": VISIBILITY_TIMEOUT_SECONDS,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    # A broker whose host is lost sends no end of a connection: without these a worker that
    # publishes waits for it until its task's time is over.
    "socket_timeout": BROKER_TIMEOUT_SECONDS,
    "socket_connect_timeout": BROKER_TIMEOUT_SECONDS,
    "socket_keepalive": True,
}

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")

TRANSPORT_ALIASES |= {
    **dict.fromkeys(("redis", "rediss"), "config.broker:TolerantTransport"),
    "sentinel": "config.broker:TolerantSentinelTransport",
}

app = Celery("gpu_ledger")
app.conf.update(
    # A worker serves its queues alternately: a backlog of hours keeps no other kind waiting. The
    # short kinds have a worker of their own; one that is started without `-Q` serves all.
    task_default_queue="celery",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_soft_time_limit=TASK_SOFT_TIME_LIMIT_SECONDS,
    task_time_limit=TASK_TIME_LIMIT_SECONDS,
    task_serializer="json",
    accept_content=["json"],
    worker_consumer="config.broker:TolerantConsumer",
    worker_prefetch_multiplier=1,
    worker_soft_shutdown_timeout=30,
    worker_max_tasks_per_child=500,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options=TRANSPORT_OPTIONS,
    visibility_timeout=VISIBILITY_TIMEOUT_SECONDS,
    enable_utc=True,
    timezone="UTC",
    beat_schedule={
        "tenants.tick_notifications": {"task": "tenants.tick_notifications", "schedule": 15},
        "tenants.tick_password_links": {"task": "tenants.tick_password_links", "schedule": 15},
        "config.tick_archives": {"task": "config.tick_archives", "schedule": 3600},
        "config.tick_verification": {"task": "config.tick_verification", "schedule": 3600},
        "tenants.tick_retention": {"task": "tenants.tick_retention", "schedule": 3600},
        "metering.tick_windows": {"task": "metering.tick_windows", "schedule": 60},
        "metering.tick_devices": {"task": "metering.tick_devices", "schedule": 60},
        "metering.tick_incidents": {"task": "metering.tick_incidents", "schedule": 900},
        "metering.tick_waste": {"task": "metering.tick_waste", "schedule": 300},
        "metering.tick_rechecks": {"task": "metering.tick_rechecks", "schedule": 300},
        "metering.tick_partitions": {"task": "metering.tick_partitions", "schedule": 3600},
        "quotas.tick_requests": {"task": "quotas.tick_requests", "schedule": 60},
        "quotas.tick_live_use": {"task": "quotas.tick_live_use", "schedule": 5},
        "quotas.tick_repair": {"task": "quotas.tick_repair", "schedule": 300},
        "quotas.tick_fair_use": {"task": "quotas.tick_fair_use", "schedule": 3600},
        "quotas.tick_preemption": {"task": "quotas.tick_preemption", "schedule": 60},
        "quotas.tick_enforcement": {"task": "quotas.tick_enforcement", "schedule": 15},
        "quotas.tick_retention": {"task": "quotas.tick_retention", "schedule": 3600},
        "billing.tick_accrual": {"task": "billing.tick_accrual", "schedule": 60},
        "billing.tick_daily_costs": {"task": "billing.tick_daily_costs", "schedule": 60},
        "billing.tick_exports": {"task": "billing.tick_exports", "schedule": 60},
        "billing.tick_periods": {"task": "billing.tick_periods", "schedule": 900},
    },
)
app.autodiscover_tasks()
app.autodiscover_tasks(["config"], related_name="verification")
app.autodiscover_tasks(["config.management"], related_name="due_archives")


@app.on_configure.connect
def read_settings(sender: Celery, **_: object) -> None:
    """Take the broker from Django's settings, once they are ready."""
    from django.conf import settings  # noqa: PLC0415 - Settings are read when the app is configured.

    # Settings are only written here: to read one would configure the app again, without an end.
    own = {f"metering.*:{slug}": f"metering.{slug}" for slug in settings.DEDICATED_CLUSTERS}
    sender.conf.task_queues = queues_named(*QUEUES, *own.values())
    sender.conf.task_routes = ROUTES | {name: {"queue": queue} for name, queue in own.items()}
    if not settings.REDIS_SENTINELS:
        sender.conf.broker_url = settings.REDIS_URL
        return
    url = urlsplit(settings.REDIS_URL)
    account = url.netloc.rpartition("@")
    sender.conf.broker_url = ";".join(
        f"sentinel://{account[0]}{account[1]}{sentinel}{url.path}"
        for sentinel in settings.REDIS_SENTINELS
    )
    sender.conf.broker_transport_options = TRANSPORT_OPTIONS | {"master_name": url.hostname}


def queues_named(*names: str) -> tuple[Queue, ...]:
    """Return queues by their names."""
    return tuple(Queue(name) for name in names)  # type: ignore[no-untyped-call]


def queue_names() -> tuple[str, ...]:
    """Return the queues that workers must serve, those of dedicated clusters with them."""
    return tuple(str(queue.name) for queue in app.conf.task_queues)


@task_failure.connect
def count_failure(sender: Task, exception: BaseException, **_: object) -> None:
    """Count a task that failed as a whole, as sweeps count failed items; Celery has logged it."""
    from django.utils import timezone  # noqa: PLC0415 - Models are ready once tasks run.

    from tenants.services.turns import count_crash  # noqa: PLC0415 - As above.

    count_crash(exception, event=f"{sender.name}.failed", key="", at=timezone.now())


@worker_process_init.connect
def begin_calm(**_: object) -> None:
    """Set the collector of a process that will meter."""
    calm_collector()
