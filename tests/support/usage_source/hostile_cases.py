"""Hostile set-ups as a real Prometheus serves them and a worker meters them."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.collection.windows import DEFAULT_POLICY, GapPolicy
from metering.models import MeteringException, MeteringWindow, UsageRecord
from metering.protocols import Observation
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.sweeping import Worker, meter_due
from tenants.domain.errors import SourceUnavailableError
from tenants.models import NamespaceBinding
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ACTOR
from tests.support.usage_source.hostile import HOUR, SCRAPE, Setup, moment, write_history

ROOT = Path(__file__).resolve().parents[3]


def running(setups: Iterable[Setup]) -> Iterator[str]:
    """Yield the URL of a real Prometheus that holds the history of every set-up."""
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    try:
        text = server.folder / "hostile.txt"
        write_history(setups, text)
        server.import_openmetrics(text, name="hostile")
        server.start()
        yield server.url()
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


def observe(setup: Setup, url: str, *, hour: int = 2) -> Observation:
    """Ask about an hour of a set-up half an hour after its end."""
    return PrometheusUsageSource().observe(
        setup.target(url),
        start_at=moment(hour * HOUR),
        end_at=moment((hour + 1) * HOUR),
        as_of=moment((hour + 1) * HOUR + HOUR // 2),
    )


def refusal(setup: Setup, url: str, *, hour: int = 2) -> SourceUnavailableError:
    """Return why an hour cannot be observed."""
    with pytest.raises(SourceUnavailableError) as refused:
        observe(setup, url, hour=hour)
    return refused.value


def missed(setup: Setup, url: str, *, hour: int) -> list[str]:
    """Return the targets that should have been scraped in an hour and were not."""
    return [one.name for one in observe(setup, url, hour=hour).targets if one.is_missed]


def accept_gap(*, at: int) -> tuple[int, str]:
    """Let a person accept what was observed of the one gap; return its hour and its targets."""
    window = MeteringWindow.objects.get(state="gap")
    cause = MeteringException.objects.get(window=window, state="open")
    assert cause.kind == "low_coverage"
    decide_window(
        window_id=window.pk,
        decision=GapPolicy.ACCEPT,
        note="Nothing more is known.",
        actor=ACTOR,
        at=moment(at),
    )
    hour = (window.start_at - moment(0)) // timedelta(hours=1)
    return hour, str(cause.details["unobserved_targets"])


def worker_of() -> Worker:
    """Return a worker that waits for no second look at a gap."""
    return Worker(
        name="worker-1",
        source=PrometheusUsageSource(),
        actor=ACTOR,
        policy=replace(DEFAULT_POLICY, coverage_attempts_max=1),
    )


def stage(setup: Setup, url: str, *, first_hour: int = 0) -> Callable[[int], None]:
    """Make a set-up's cluster, metered from an hour on; return what meters all that is due."""
    cluster = make_cluster(
        setup.slug,
        prometheus_url=url,
        scrape_interval_seconds=SCRAPE,
        selector_label="cluster",
        selector_value=setup.slug,
        metered_from=moment(first_hour * HOUR),
    )
    bind(cluster, "team-nlp", make_project(make_organization()))
    NamespaceBinding.objects.update(valid=(moment(-30 * 24 * HOUR), None))
    worker = worker_of()

    def meter(at: int) -> None:
        meter_due(worker=worker, at=moment(at))

    return meter


def billed(hour: int = 0) -> dict[str, int]:
    """Return unit-seconds of an hour by pod over all revisions."""
    found: dict[str, int] = {}
    rows = UsageRecord.objects.filter(window_start=moment(hour * HOUR)).order_by("pod_uid")
    for uid, seconds in rows.values_list("pod_uid", "unit_seconds"):
        found[uid] = found.get(uid, 0) + seconds
    return found
