"""Checks of the broker, of the workers behind it, and of beat, which wakes them."""

from collections.abc import Iterator
from typing import Any, Final

from django.conf import settings
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from config.celery import app, queue_names
from config.doctor.findings import CheckResult, listed, ok, problem, warning
from config.monitoring.health import STANDSTILL_SECONDS
from tenants.selectors.names import slugs_of_clusters
from tenants.services.wakeups import wake_ages

PAGE: Final = "docs/how-to/install.md"
DEDICATED_PAGE: Final = "docs/how-to/run-on-several-hosts.md#workers-of-one-cluster"
CONNECT_SECONDS_MAX: Final = 3
SAFE_POLICY: Final = "noeviction"


def check_background(url: str | None = None) -> Iterator[CheckResult]:
    """Yield whether the broker answers and keeps messages, and whether its queues are served.

    Args:
        url: Of the broker; None for the one of workers, which sentinels may name.
    """
    with app.connection_for_write(url, connect_timeout=CONNECT_SECONDS_MAX) as broker:
        try:
            broker.ensure_connection(max_retries=1, timeout=CONNECT_SECONDS_MAX)
            client = broker.default_channel.client
            server, memory = client.info("server"), client.info("memory")
            ages = wake_ages(client, queue_names())
            lengths = {queue: int(client.llen(queue)) for queue in queue_names()}
        except (OperationalError, RedisError) as error:
            yield problem(
                "broker",
                f"Valkey does not answer ({type(error).__name__}): no worker is woken.",
                "Start it, and check REDIS_URL, and REDIS_SENTINELS where they are set.",
                PAGE,
            )
            return
    yield _broker(server, memory)
    yield from _workers(ages, lengths)


def check_queues() -> Iterator[CheckResult]:
    """Yield which clusters have workers of their own; `workers` says whether these serve them."""
    dedicated = settings.DEDICATED_CLUSTERS
    unknown = sorted({*dedicated} - slugs_of_clusters(dedicated))
    if unknown:
        yield warning(
            "dedicated",
            f"DEDICATED_CLUSTERS names clusters that there are not: {listed(unknown)}.",
            "Correct the slugs: the same on every host.",
            DEDICATED_PAGE,
        )
        return
    who = (
        f"Workers of their own meter {listed(dedicated)}."
        if dedicated
        else ("No cluster has workers of its own; each worker meters all.")
    )
    yield ok("dedicated", who)


def _broker(server: dict[str, Any], memory: dict[str, Any]) -> CheckResult:
    name = "Valkey" if "valkey_version" in server else "Redis"
    version = server.get("valkey_version") or server.get("redis_version") or "unknown"
    policy, limit = memory.get("maxmemory_policy", ""), int(memory.get("maxmemory", 0))
    if policy not in {"", SAFE_POLICY} and limit:
        return warning(
            "broker",
            f"{name} {version} answers, but with maxmemory-policy {policy} it drops messages above"
            f" {limit / 2**20:,.0f} MiB; beat sends them again a minute later.",
            f"Set maxmemory-policy {SAFE_POLICY}.",
            PAGE,
        )
    used = int(memory.get("used_memory", 0)) / 2**20
    return ok("broker", f"{name} {version} answers and evicts nothing; it uses {used:,.0f} MiB.")


def _workers(ages: dict[str, int | None], lengths: dict[str, int]) -> Iterator[CheckResult]:
    """Yield whether queues are served: of an idle one, what waits in it shows who is missing."""
    idle = [queue for queue, age in ages.items() if age is None or age > STANDSTILL_SECONDS]
    filled = [queue for queue in idle if lengths[queue]]
    if filled:
        yield problem(
            "workers",
            f"No worker has taken a message of {listed(filled)} for {STANDSTILL_SECONDS} s, and"
            f" {sum(lengths[queue] for queue in filled)} wait.",
            "Start a worker for each queue: `celery -A config worker --queues"
            f" {','.join(filled)}`.",
            PAGE,
        )
    elif idle:
        yield warning(
            "workers",
            f"Nothing was taken from {listed(idle)} for {STANDSTILL_SECONDS} s; nothing waits.",
            "Start beat first: then it shows whether workers serve these queues.",
            PAGE,
        )
    else:
        latest = max(age or 0 for age in ages.values())
        yield ok("workers", f"Workers took a message of every queue within {latest} s.")
    if idle and not filled:
        yield problem(
            "beat",
            f"Beat has sent nothing to {listed(idle)} for {STANDSTILL_SECONDS} s.",
            "Start it: `celery -A config beat`; two at once do no harm.",
            PAGE,
        )
    else:
        recent = min((age for age in ages.values() if age is not None), default=None)
        if recent is None:
            yield ok("beat", "Beat sends: its messages wait for workers.")
        else:
            yield ok("beat", f"Beat sends: the last message was taken {recent} s ago.")
