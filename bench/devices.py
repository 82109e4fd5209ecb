"""Six hours of 4,000 DCGM series beside a real Prometheus: DCGM samples a second, to their rows.

Each hour after the first, another fifth of the GPUs gets another pod. Figures are compared with the
time, and their part with the CPU, that Prometheus takes for a fixed set of queries.

The same devices twice: once their pods belong to 50 tenants, once to 1,000, each an organization
with a project and a namespace of its own. More tenants must not make the same samples slower.
"""

import tempfile
from collections.abc import Callable, Generator, Iterator
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
from bench.plain import BILL, DEVICES, ask_plainly, fixed_queries
from embedded.prometheus import EmbeddedPrometheus

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = 6
AT: Final = START + timedelta(hours=HOURS, minutes=20)
SCRAPE_SECONDS: Final = 30
GPUS: Final = scaled(400)
STAYS: Final = 3
"""Each GPU serves three pods one after another, so 1,200 pods for at most 1,000 tenants."""
TENANTS: Final = (50, 1_000)
RATIO_MAX: Final = "1.3"
TO_PROMETHEUS_MAX: Final = "2.45"
FIGURES_TO_PROMETHEUS_MAX: Final = "0.8"
ASKED_TO_FIXED_MAX: Final = "1.5"
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


Clocks = dict[str, Callable[[], Decimal]]
"""CPU seconds of each process so far."""


def _measure(folder: Path, *, postgres: int) -> Iterator[Figure]:
    from metering.models import DeviceUsage, MeteringWindow  # noqa: PLC0415 - Django is set up.

    server = _prometheus(folder)
    assert server.process is not None, "it was started"
    prometheus = server.process.pid
    clocks: Clocks = {
        "worker": process_seconds,
        "postgres": lambda: cpu_seconds(postgres),
        "prometheus": lambda: cpu_seconds(prometheus),
    }
    seconds: dict[int, Decimal] = {}
    try:
        for tenants in TENANTS:
            _make_cluster(tenants, server.url())
        _meter(START + timedelta(hours=1, minutes=20))
        _measure_figures(START + timedelta(hours=1, minutes=20))
        for tenants in TENANTS:
            seconds[tenants] = yield from _measure_cluster(tenants, clocks, url=server.url())
        slower = seconds[TENANTS[1]] / seconds[TENANTS[0]]
        yield ratio("devices.more_tenants_to_fewer", slower, Bound.AT_MOST, RATIO_MAX)
    finally:
        server.stop()
    unsealed = MeteringWindow.objects.exclude(state="sealed").values_list("state", "last_error")
    assert not unsealed, list(unsealed)
    yield from row_sizes("metering_usagerecord", "metering_devicefigure", "metering_usageactivity")
    assert DeviceUsage.objects.filter(attribution="exclusive", busy_coverage=1).count() == (
        len(TENANTS) * GPUS * (HOURS + STAYS - 1)
    )


def _measure_cluster(tenants: int, clocks: Clocks, *, url: str) -> Generator[Figure, None, Decimal]:
    """Yield the figures of one cluster's hours and return the seconds that they took."""
    meter_only(_slug(tenants))
    before = _read(clocks)
    with measured() as watch:
        _meter(AT)
        between = _read(clocks)
        _measure_figures(AT)
    after = _read(clocks)
    hours = GPUS * (HOURS - 1)
    for name in clocks:
        # Of a device with its pod, and of the device alone.
        for part, since in (("", before), ("figures_", between)):
            milliseconds = (after[name] - since[name]) * 1_000 / hours
            figure = f"devices.{part}{name}_cpu_{tenants}_tenants"
            yield measurement(figure, milliseconds, "ms/device-hour")
    plain = ask_plainly(url, _fixed(tenants, BILL, DEVICES))
    yield ratio(
        f"devices.to_prometheus_{tenants}_tenants",
        watch.seconds / plain,
        Bound.AT_MOST,
        TO_PROMETHEUS_MAX,
    )
    moments = []
    for queries in (_fixed(tenants, DEVICES), _asked(tenants)):
        moments.append(clocks["prometheus"]())
        ask_plainly(url, queries)
    moments.append(clocks["prometheus"]())
    fixed, asked = moments[1] - moments[0], moments[2] - moments[1]
    for name, taken, limit in (
        ("figures_cpu", after["worker"] - between["worker"], FIGURES_TO_PROMETHEUS_MAX),
        ("queries_cpu", asked, ASKED_TO_FIXED_MAX),
    ):
        figure = f"devices.{name}_to_fixed_queries_{tenants}_tenants"
        yield ratio(figure, taken / fixed, Bound.AT_MOST, limit)
    samples = Decimal(hours * (len(METRICS) + 1) * 3600) / SCRAPE_SECONDS
    name = f"devices.dcgm_samples_per_second_{tenants}_tenants"
    yield measurement(name, samples / watch.seconds, "1/s")
    return watch.seconds


def _read(clocks: Clocks) -> dict[str, Decimal]:
    return {name: seconds_of() for name, seconds_of in clocks.items()}


def _meter(at: datetime) -> None:
    """Open what is due and meter it, in this process."""
    from metering.services.collection.sweeping import meter_due  # noqa: PLC0415 - Django is set up.
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415

    open_due_windows(at=at)
    meter_due(worker=_worker(), at=at)


def _measure_figures(at: datetime) -> None:
    """Collect the device figures of what is sealed."""
    from metering.services.devices.collection import (  # noqa: PLC0415 - Django is set up by now.
        collect_due_devices,
    )

    collect_due_devices(worker=_worker(), at=at)


def _worker() -> Any:  # noqa: ANN401 - A Worker.
    from metering.adapters import usage_source  # noqa: PLC0415 - Django is set up by now.
    from metering.services.collection.sweeping import Worker  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    return Worker(name="bench", source=source, actor=system_actor("bench"))


def _asked(tenants: int) -> list[tuple[str, str]]:
    """Return the queries about devices in the hours metered last, as they were asked."""
    from metering.models import DeviceWindow  # noqa: PLC0415 - Django is set up by now.

    figures = DeviceWindow.objects.filter(
        window__cluster__slug=_slug(tenants),
        window__start_at__gte=START + timedelta(hours=1),
    )
    return [
        (one["query"], one["at"])
        for hour in figures.values_list("evidence", flat=True)
        for one in hour
    ]


def _fixed(tenants: int, *about: str) -> list[tuple[str, str]]:
    """Return the fixed queries about the hours metered last."""
    hours = [START + timedelta(hours=hour) for hour in range(1, HOURS)]
    return [one for hour in hours for one in fixed_queries(_slug(tenants), hour, *about)]


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
    """Return three pods for each GPU: the second begins in the first hour, the third in another.

    They begin between two scrapes, never on the hour, so that each is a row more in its hour.
    """
    first, last = _span()
    begin = int(START.timestamp())
    stays = []
    for gpu in range(GPUS):
        second = begin + (10 + gpu % 100) * SCRAPE_SECONDS
        third = begin + 3600 + (5 + 2 * (gpu * 7 % 295)) * SCRAPE_SECONDS
        edges = (first, second, third, last)
        stays += [
            Stay(
                gpu=gpu,
                begin=edges[turn],
                end=edges[turn + 1],
                namespace=f"{_slug(tenants)}-{(gpu * STAYS + turn) % tenants}",
                uid=f"{tenants}-{gpu}-{turn}",
            )
            for turn in range(STAYS)
        ]
    return stays


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
