"""What a Prometheus has of the series and labels that metering needs; nothing of it is billed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import pairwise
from statistics import median
from typing import Final

from metering.adapters.prometheus import PrometheusUsageSource
from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.queries import ANSWER_LABEL, QueryPlan, quoted
from metering.adapters.prometheus.samples import Range, read_count, read_rows, to_seconds
from metering.protocols import ClusterTarget

SPAN_SECONDS: Final = 3_600
STEP_SECONDS: Final = 300
"""Counts at these moments cost far less than samples, and no restart of an exporter is longer."""
GPU_REQUESTS: Final = "requests of GPUs"
GPU_NODES: Final = "nodes with GPUs"
PRODUCTS: Final = "nodes with the label nvidia.com/gpu.product"
OWNERS: Final = "pods with the label of users"
DEVICES: Final = "devices"
DEVICES_NAMED: Final = "devices with UUID and host name"
POD_METRICS: Final = (known.REQUESTS, known.POD_INFO, known.SCHEDULED, known.POD_PHASE)
"""Every pod has them; from kube-state-metrics."""


@dataclass(frozen=True)
class ServerStatus:
    """What a server says of itself.

    Attributes:
        version: "" where it does not say.
        clock: Its time in whole seconds; None where no answer has it.
    """

    version: str
    clock: datetime | None


@dataclass(frozen=True)
class ScrapeStatus:
    """Scrapes of kube-state-metrics in the last hour.

    Attributes:
        targets: How many there were.
        answering: Those whose last scrape succeeded.
        interval_seconds: Between two scrapes, most of the time; None with fewer than two.
        age_seconds: Since the newest scrape; None without any.
    """

    targets: int
    answering: int
    interval_seconds: int | None
    age_seconds: int | None


class PrometheusInspection:
    """Asks the Prometheus of one cluster.

    Args:
        source: Through which it is reached.
        target: The cluster.
    """

    def __init__(self, source: PrometheusUsageSource, target: ClusterTarget) -> None:
        """Ask nothing yet."""
        self._source = source
        self._target = target

    def status(self) -> ServerStatus:
        """Return what the server says of itself.

        Raises:
            SourceUnavailableError: No response, or a rejected one.
        """
        version, date = self._source.conversation(self._target).build()
        try:
            return ServerStatus(version, parsedate_to_datetime(date))
        except ValueError:
            return ServerStatus(version, None)

    def retention(self) -> timedelta | None:
        """Return how long it keeps samples; None where it does not say.

        Raises:
            SourceUnavailableError: No response, or a rejected one.
        """
        return self._source.memory(self._target)

    def series(self, *, at: datetime) -> Mapping[str, int]:
        """Return the most series that there were at one moment of the last hour, by name.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        asking, plan = self._source.begin(self._target)
        asked = _vectors(plan, user_label=self._target.user_label)
        query = " or ".join(
            f"label_replace(max_over_time(count({vector})[{SPAN_SECONDS:d}s:{STEP_SECONDS:d}s])"
            f' or vector(0),"{ANSWER_LABEL}",{quoted(name)},"","")'
            for name, vector in asked.items()
        )
        rows = read_rows(asking.ask(query, _last_hour(at)))
        found = {labels.get(ANSWER_LABEL, ""): read_count(text) for labels, text in rows}
        return {name: found.get(name, 0) for name in asked}

    def scrapes(self, *, at: datetime) -> ScrapeStatus:
        """Return how kube-state-metrics was scraped in the last hour.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        asking, plan = self._source.begin(self._target)
        up = _of(plan, (known.UP,), f"job=~{quoted(plan.jobs)}{plan.selector}")
        targets = answering = newest = 0
        gaps: list[int] = []
        for one in asking.matrix(lambda seconds: f"{up}[{seconds:d}s]", _last_hour(at)):
            targets += 1
            answering += one.values[-1] == "1"
            gaps += [after - before for before, after in pairwise(one.times)]
            newest = max(newest, one.times[-1])
        return ScrapeStatus(
            targets=targets,
            answering=answering,
            interval_seconds=round(median(gaps) / 1000) if gaps else None,
            age_seconds=to_seconds(at) - newest // 1000 if newest else None,
        )


def _vectors(plan: QueryPlan, *, user_label: str) -> Mapping[str, str]:
    """Return what to count, by what it shows."""
    gpus = f"resource=~{quoted(plan.resources)}{plan.selector}"
    others = plan.selector[1:]
    product = f'label_nvidia_com_gpu_product!=""{plan.selector}'
    asked = {name: _of(plan, (name,), others) for name in POD_METRICS}
    asked[known.NODE_LABELS] = _of(plan, (known.NODE_LABELS,), others)
    asked[GPU_REQUESTS] = _of(plan, (known.REQUESTS,), gpus)
    node = ",".join(plan.names.labels["node"])
    asked[GPU_NODES] = f"count by ({node}) ({_of(plan, (known.ALLOCATABLE,), gpus)})"
    asked[PRODUCTS] = f"count by ({node}) ({_of(plan, (known.NODE_LABELS,), product)})"
    asked[DEVICES] = _of(plan, known.PRESENCE, others)
    asked[DEVICES_NAMED] = _named_devices(plan)
    if user_label:
        asked[OWNERS] = _of(plan, (known.POD_LABELS,), f'label_{user_label}!=""{plan.selector}')
    return asked


def _named_devices(plan: QueryPlan) -> str:
    """Return the devices with a UUID and a host name in any spelling."""
    return " or ".join(
        _of(plan, known.PRESENCE, f'{uuid}!="",{host}!=""{plan.selector}')
        for uuid in plan.names.labels["uuid"]
        for host in plan.names.labels["hostname"]
    )


def _of(plan: QueryPlan, metrics: tuple[str, ...], matchers: str) -> str:
    named = f"__name__=~{quoted('|'.join(plan.names.spelled(*metrics)))}"
    return f"{{{named},{matchers}}}" if matchers else f"{{{named}}}"


def _last_hour(at: datetime) -> Range:
    now = to_seconds(at)
    return Range(now - SPAN_SECONDS, now)
