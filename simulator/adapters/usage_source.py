"""The usage source of a simulated cluster: it returns what Prometheus would have scraped.

It uses no network. Scrapes, outage and whole seconds are the same as in a real Prometheus' history
of the same seed, so that both sources pass one contract suite.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from metering.protocols import (
    ClusterTarget,
    DeviceFigures,
    Evidence,
    Observation,
    ObservedSpan,
    UsageSource,
)
from simulator.adapters.device_observations import (
    MISSING_FIGURES,
    devices_seen,
    energies_seen,
    health_seen,
    models_seen,
)
from simulator.adapters.observations import (
    Window,
    nodes_seen,
    pods_seen,
    targets_seen,
)
from simulator.adapters.parts import AnswersInParts
from simulator.cluster.demo_scenario import (
    SCRAPE_INTERVAL_SECONDS,
    demo_scenario,
)
from simulator.cluster.exporters.exporter import GrowingScenario
from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.scenario import Scenario
from tenants.domain.errors import SourceUnavailableError

SOURCE: Final = "simulated"
LEAD_SCRAPES: Final = 4
LEAD_SECONDS: Final = 240
LAG_SCRAPES: Final = 5
LAG_SECONDS: Final = 600
"""How far around the window is looked; the same as the Prometheus source, which says why."""
DEVICE_SCRAPES: Final = 2


class SimulatedUsageSource(AnswersInParts):
    """Usage as scrapes of a simulated scenario would show it.

    Args:
        seed: Of the standard scenario.
        month_start: Begin of its month, aware, or ISO 8601 text as a setting has it.
        scrape_interval_seconds: How often its clusters are scraped.
        scenario: A scenario of one's own instead; the arguments above are ignored then.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        month_start: datetime | str = "2026-10-01T00:00:00+00:00",
        scrape_interval_seconds: int = SCRAPE_INTERVAL_SECONDS,
        scenario: Scenario | None = None,
    ) -> None:
        """Prepare; nothing is made yet."""
        begin = (
            datetime.fromisoformat(month_start) if isinstance(month_start, str) else month_start
        ).astimezone(UTC)

        def make(until: datetime) -> Scenario:
            if scenario is not None:
                return scenario
            return demo_scenario(
                seed, begin, until, scrape_interval_seconds=scrape_interval_seconds
            )

        self._scenario = GrowingScenario(make)

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return the observed usage; see `UsageSource.observe`.

        Raises:
            SourceUnavailableError: The scenario has no cluster of this name.
            ValueError: The window is empty, or `as_of` is less than two scrapes after its end.
        """
        scrape = timedelta(seconds=target.scrape_interval_seconds)
        reach = DEVICE_SCRAPES * scrape
        _check_ended(start_at=start_at, end_at=end_at, as_of=as_of, reach=reach)
        exposition = self._exposition(target.slug, as_of)
        latest = min(as_of, end_at + max(timedelta(seconds=LAG_SECONDS), LAG_SCRAPES * scrape))
        window = Window(start_at, end_at, scrape)
        cluster = exposition.cluster
        lead = max(timedelta(seconds=LEAD_SECONDS), LEAD_SCRAPES * scrape)
        begin_at, until = start_at - lead, latest + timedelta(seconds=1)
        ticks = cluster.ticks(begin_at, until)
        pods = pods_seen(cluster, ticks, target.user_label)
        return Observation(
            cluster=target.slug,
            start_at=start_at,
            end_at=end_at,
            as_of=latest,
            source=SOURCE,
            ticks=ticks,
            expected_ticks=(end_at - start_at) // scrape,
            pods=pods,
            nodes=nodes_seen(cluster, ticks, window),
            evidence=(_evidence(target.slug, latest, repr((ticks, pods)), len(ticks)),),
            targets=targets_seen(cluster, ticks, begin_at, until),
            device_models=models_seen(exposition),
        )

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        """Return a source that has observed several hours; see `UsageSource.prefetch`.

        Raises:
            SourceUnavailableError: As `observe` does.
            ValueError: As `observe` does.
        """
        observed = {
            span: self.observe(target, start_at=span.start_at, end_at=span.end_at, as_of=span.as_of)
            for span in spans
        }
        return _SimulatedHours(self, observed)

    def count_pods(self, target: ClusterTarget, *, as_of: datetime) -> int:
        """Return how many pods the last scrapes showed; see `DividingSource.count_pods`.

        Raises:
            SourceUnavailableError: The scenario has no cluster of this name.
        """
        cluster = self._exposition(target.slug, as_of).cluster
        reach = DEVICE_SCRAPES * timedelta(seconds=target.scrape_interval_seconds)
        return len(pods_seen(cluster, cluster.ticks(as_of - reach, as_of), target.user_label))

    def memory(self, target: ClusterTarget) -> timedelta | None:
        """Return that nothing is ever lost: a scenario is known for good."""
        del target
        return timedelta.max

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        """Return what devices did; see `UsageSource.observe_devices`.

        Raises:
            SourceUnavailableError: The scenario has no cluster of this name.
            ValueError: As `observe` does.
        """
        reach = DEVICE_SCRAPES * timedelta(seconds=target.scrape_interval_seconds)
        _check_ended(start_at=start_at, end_at=end_at, as_of=as_of, reach=reach)
        exposition = self._exposition(target.slug, as_of)
        ticks = exposition.cluster.ticks(start_at - reach, end_at + reach + timedelta(seconds=1))
        devices = devices_seen(exposition, ticks, Window(start_at, end_at, reach / DEVICE_SCRAPES))
        return DeviceFigures(
            cluster=target.slug,
            start_at=start_at,
            end_at=end_at,
            source=SOURCE,
            devices=devices,
            energies=energies_seen(exposition, devices),
            health=health_seen(exposition, ticks),
            missing_figures=MISSING_FIGURES if devices else (),
            evidence=(_evidence(target.slug, end_at + reach, repr(devices), len(ticks)),),
        )

    def _exposition(self, slug: str, as_of: datetime) -> ClusterExposition:
        exposition = self._scenario.expositions(as_of).get(slug)
        if exposition is None:
            raise SourceUnavailableError(
                "The simulated scenario has no cluster of this name.", reason="bad_target"
            )
        return exposition


class _SimulatedHours:
    """A simulated source that has observed some hours of one cluster before."""

    def __init__(
        self, alone: SimulatedUsageSource, observed: dict[ObservedSpan, Observation]
    ) -> None:
        self._alone = alone
        self._observed = observed

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        observed = self._observed.pop(ObservedSpan(start_at, end_at, as_of), None)
        if observed is not None and observed.cluster == target.slug:
            return observed
        return self._alone.observe(target, start_at=start_at, end_at=end_at, as_of=as_of)

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        return self._alone.prefetch(target, spans)

    def memory(self, target: ClusterTarget) -> timedelta | None:
        return self._alone.memory(target)

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        return self._alone.observe_devices(target, start_at=start_at, end_at=end_at, as_of=as_of)


def _check_ended(
    *, start_at: datetime, end_at: datetime, as_of: datetime, reach: timedelta
) -> None:
    if start_at >= end_at or as_of < end_at + reach:
        raise ValueError("A window is asked for when it has ended two scrapes ago.")


def _evidence(slug: str, at: datetime, seen: str, samples: int) -> Evidence:
    """Return a digest of the samples, instead of a query's."""
    digest = hashlib.sha256(seen.encode()).hexdigest()
    return Evidence(query=f"simulated:{slug}", at=at, sha256=digest, samples=samples)
