"""Six hours of 4,000 DCGM series beside a real Prometheus: DCGM samples a second, to their rows.

The same devices twice: once their pods belong to 50 tenants, once to 1,000, each an organization
with a project and a namespace of its own. More tenants must not make the same samples slower.
"""

import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final

from bench.harness import (
    ROOT,
    Bound,
    Figure,
    cpu_seconds,
    ledger_database,
    measured,
    measurement,
    process_seconds,
    ratio,
    row_sizes,
    scaled,
)
from bench.kube_history import (
    Stay,
    make_tenants,
    meter_only,
    ticks_of,
    write_objects,
    write_series,
    write_type,
)
from bench.plain import ask_plainly
from embedded.prometheus import EmbeddedPrometheus

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = 6
AT: Final = START + timedelta(hours=HOURS, minutes=20)
SCRAPE_SECONDS: Final = 30
GPUS: Final = scaled(400)
POD_HOURS: Final = 2
"""Each GPU serves three pods one after another, so 1,200 pods for at most 1,000 tenants."""
TENANTS: Final = (50, 1_000)
RATIO_MAX: Final = "1.3"
TO_PROMETHEUS_MAX: Final = "3.4"
EDGE_SECONDS: Final = 900

METRICS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": [b"%d" % (40 + step % 53) for step in range(97)],
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": [b"0.%06d" % (400_000 + step * 5_117) for step in range(97)],
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": [b"0.%06d" % (100_000 + step * 3_001) for step in range(97)],
    "DCGM_FI_PROF_DRAM_ACTIVE": [b"0.%06d" % (200_000 + step * 2_003) for step in range(97)],
    "DCGM_FI_DEV_POWER_USAGE": [b"%d.317000" % (300 + step * 3) for step in range(97)],
    "DCGM_FI_DEV_SM_CLOCK": [b"%d" % (1_400 + step * 5) for step in range(97)],
    "DCGM_FI_DEV_FB_USED": [b"%d" % (30_000 + step * 301) for step in range(97)],
    "DCGM_FI_DEV_FB_FREE": [b"%d" % (50_940 - step * 301) for step in range(97)],
    "DCGM_FI_DEV_FB_RESERVED": [b"619"],
}
"""The exporter's default counters that are read, with the values they go through; and ENERGY."""
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
MILLIWATTS: Final = 450_000


def run() -> Iterator[Figure]:
    """Yield the figures of device metering."""
    with (
        ledger_database() as postgres,
        tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder,
    ):
        Path(folder).chmod(0o755)
        assert postgres.process is not None, "it was started"
        yield from _measure(Path(folder), postgres=postgres.process.pid)


def _measure(folder: Path, *, postgres: int) -> Iterator[Figure]:
    from metering.models import DeviceUsage, MeteringWindow  # noqa: PLC0415 - Django is set up.

    server = _prometheus(folder)
    assert server.process is not None, "it was started"
    prometheus = server.process.pid
    used: dict[str, Callable[[], Decimal]] = {
        "worker": process_seconds,
        "postgres": lambda: cpu_seconds(postgres),
        "prometheus": lambda: cpu_seconds(prometheus),
    }
    seconds: dict[int, Decimal] = {}
    samples = GPUS * (len(METRICS) + 1) * HOURS * 3600 // SCRAPE_SECONDS
    try:
        for tenants in TENANTS:
            _make_cluster(tenants, server.url())
        _meter(START + timedelta(hours=1, minutes=20))
        for tenants in TENANTS:
            meter_only(_slug(tenants))
            before = {name: seconds_of() for name, seconds_of in used.items()}
            with measured() as watch:
                _meter(AT)
            seconds[tenants] = watch.seconds
            for name, seconds_of in used.items():
                milliseconds = (seconds_of() - before[name]) * 1_000 / GPUS / (HOURS - 1)
                # Of a device with its pod.
                figure = f"devices.{name}_cpu_{tenants}_tenants"
                yield measurement(figure, milliseconds, "ms/device-hour")
            plain = _ask_plainly(tenants, server.url())
            yield ratio(
                f"devices.to_prometheus_{tenants}_tenants",
                watch.seconds / plain,
                Bound.AT_MOST,
                TO_PROMETHEUS_MAX,
            )
            yield measurement(
                f"devices.dcgm_samples_per_second_{tenants}_tenants",
                Decimal(samples) * (HOURS - 1) / HOURS / watch.seconds,
                "1/s",
            )
        slower = seconds[TENANTS[1]] / seconds[TENANTS[0]]
        yield ratio("devices.more_tenants_to_fewer", slower, Bound.AT_MOST, RATIO_MAX)
    finally:
        server.stop()
    unsealed = MeteringWindow.objects.exclude(state="sealed").values_list("state", "last_error")
    assert not unsealed, list(unsealed)
    yield from row_sizes("metering_usagerecord", "metering_deviceusage", "metering_usageactivity")
    assert DeviceUsage.objects.filter(attribution="exclusive", busy_coverage=1).count() == (
        len(TENANTS) * GPUS * HOURS
    )


def _meter(at: datetime) -> None:
    """Open what is due, meter it and collect its device figures, in one process."""
    from metering.adapters import usage_source  # noqa: PLC0415 - Django is set up by now.
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415
    from metering.services.devices.collection import collect_due_devices  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    open_due_windows(at=at)
    worker = Worker(name="bench", source=source, actor=system_actor("bench"))
    meter_due(worker=worker, at=at)
    collect_due_devices(worker=worker, at=at)


def _ask_plainly(tenants: int, url: str) -> Decimal:
    """Return the seconds Prometheus takes for all queries about the hours metered last."""
    from metering.models import DeviceWindow, MeteringWindow  # noqa: PLC0415 - Django is set up.

    since = START + timedelta(hours=1)
    windows = MeteringWindow.objects.filter(cluster__slug=_slug(tenants), start_at__gte=since)
    figures = DeviceWindow.objects.filter(window__in=windows)
    evidence = [
        *windows.values_list("evidence", flat=True),
        *figures.values_list("evidence", flat=True),
    ]
    queries = [(one["query"], one["at"]) for hour in evidence for one in hour]
    assert len(queries) > len(evidence), queries
    return ask_plainly(url, queries)


def _slug(tenants: int) -> str:
    return f"tenants-{tenants}"


def _prometheus(folder: Path) -> EmbeddedPrometheus:
    """Return a server with both histories in it."""
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    server.prepare()
    for tenants in TENANTS:
        text = server.folder / "history.txt"
        with text.open("wb") as out:
            _write(out, tenants)
        server.import_openmetrics(text, name=_slug(tenants))
        text.unlink()
    server.start()
    return server


def _make_cluster(tenants: int, url: str) -> None:
    who: dict[str, Any] = {"scrape_seconds": SCRAPE_SECONDS, "at": START}
    make_tenants(_slug(tenants), tenants, prometheus_url=url, **who)


def _span() -> tuple[int, int]:
    begin = int(START.timestamp())
    return begin - EDGE_SECONDS, begin + HOURS * 3600 + EDGE_SECONDS


def _stays(tenants: int) -> list[Stay]:
    begin = int(START.timestamp())
    length = POD_HOURS * 3600
    return [
        Stay(
            gpu=gpu,
            begin=begin + turn * length - (EDGE_SECONDS if turn == 0 else 0),
            end=begin + (turn + 1) * length + (EDGE_SECONDS if turn == last else 0),
            namespace=f"{_slug(tenants)}-{(gpu * (last + 1) + turn) % tenants}",
            uid=f"{tenants}-{gpu}-{turn}",
        )
        for last in (HOURS // POD_HOURS - 1,)
        for gpu in range(GPUS)
        for turn in range(last + 1)
    ]


def _write(out: BinaryIO, tenants: int) -> None:
    """Write the history of one cluster as OpenMetrics, family by family."""
    stays = _stays(tenants)
    cluster = f'cluster="{_slug(tenants)}"'
    for name, values in METRICS.items():
        write_type(out, name)
        for stay in stays:
            ticks = ticks_of(stay.begin, stay.end, SCRAPE_SECONDS)
            cycle = [values[(at // 30 + stay.gpu) % len(values)] for at in ticks]
            write_series(out, f"{name}{{{cluster},{stay.device}}}", ticks, cycle)
    write_type(out, ENERGY)
    for stay in stays:
        ticks = ticks_of(stay.begin, stay.end, SCRAPE_SECONDS)
        counter = [b"%d" % (MILLIWATTS * (at - 1_790_000_000)) for at in ticks]
        write_series(out, f"{ENERGY}{{{cluster},{stay.device}}}", ticks, counter)
    write_objects(out, cluster, stays, span=_span(), scrape_seconds=SCRAPE_SECONDS)
    out.write(b"# EOF\n")
