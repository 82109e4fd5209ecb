"""The outages of a run: what goes away, what brings it back, and how the backlog goes on."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from django.db import connections

from simulator.hosts.ledger import count_sealed, count_unsealed, count_waiting, end_leases
from simulator.hosts.links import LinkCut
from simulator.hosts.site import BROKER, DATABASE, WEBS, WORKERS, Site
from simulator.hosts.watching import WebAnswers, WorkerLogs, is_ready, wait_while


@dataclass(frozen=True)
class Pace:
    """How long things last.

    Attributes:
        away_seconds: How long what goes away stays away.
        steady_seconds: Between two outages; rates are measured over it.
        recovery_seconds_max: No recovery may take longer.
        is_hurried: Whether no recovery is waited for and leases are ended, for a run of a minute.
    """

    away_seconds: float
    steady_seconds: float
    recovery_seconds_max: float
    is_hurried: bool


@dataclass(frozen=True)
class HostOutage:
    """One outage.

    Attributes:
        title: What goes away.
        begin: Takes it away.
        end: Brings it back.
        hosts: Worker hosts that must seal something again.
        is_back: Whether all is as before, where that is more than sealing.
    """

    title: str
    begin: Callable[[], object]
    end: Callable[[], object]
    hosts: tuple[str, ...] = ()
    is_back: Callable[[], bool] | None = None


@dataclass(frozen=True)
class OutageLine:
    """One line of the table.

    Attributes:
        at_seconds: Since the first outage.
        before: Hours sealed a second before it.
        during: The same while it lasts.
        after: The same afterwards.
        recovery_seconds: From its end until it is repaired; None when that was not waited for, or
            no hours were left.
        answered: Requests that a web server answered meanwhile, of how many.
    """

    at_seconds: float
    title: str
    away_seconds: float
    before: float
    during: float
    after: float
    recovery_seconds: float | None
    answered: tuple[int, int]


class OutageRun:
    """Runs outages on a site, one after another.

    Args:
        site: Everything runs.
        pace: How long things last.
    """

    def __init__(self, site: Site, pace: Pace) -> None:
        """Begin to watch."""
        self._site = site
        self._pace = pace
        self._logs = WorkerLogs({name: site.hosts[name].log("worker") for name in WORKERS})
        self._web = WebAnswers(site.web_urls())

    def await_steady(self) -> None:
        """Wait until every worker host seals hours, while some are left, and the web answers."""
        begin = time.monotonic()

        def is_starting() -> bool:
            is_working = all(self._logs.works_since(begin, name) for name in WORKERS)
            return not (
                (is_working or count_unsealed() == 0) and all(map(is_ready, self._site.web_urls()))
            )

        wait_while(is_starting, seconds_max=self._pace.recovery_seconds_max, what="The start")

    def run_each(
        self, outages: Sequence[HostOutage], *, make_more_due: Callable[[], None] | None = None
    ) -> Iterator[OutageLine]:
        """Run them and yield a line of the table for each.

        Args:
            outages: In this order.
            make_more_due: Called before each outage; None where all hours are due already.
        """
        first = time.monotonic()
        for outage in outages:
            time.sleep(self._pace.steady_seconds)
            if make_more_due is not None:
                make_more_due()
                self._await_work(since=time.monotonic())
            yield self._run(outage, at_seconds=time.monotonic() - first)

    def await_all(self) -> float:
        """Wait until every hour is sealed; return after how many seconds."""
        begin = moved_at = time.monotonic()
        left = count_unsealed()
        while left != 0:
            if self._pace.is_hurried:
                end_leases()
            time.sleep(self._pace.steady_seconds)
            if (now := count_unsealed()) != left:
                left, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > self._pace.recovery_seconds_max:
                raise TimeoutError(f"{left} hours are not sealed.")
        return time.monotonic() - begin

    def stop(self) -> None:
        """End the watching."""
        self._logs.stop()
        self._web.stop()

    def _run(self, outage: HostOutage, *, at_seconds: float) -> OutageLine:
        begin = time.monotonic()
        steady = self._pace.steady_seconds
        before = self._logs.hours_since(begin - steady) / steady
        outage.begin()
        time.sleep(self._pace.away_seconds)
        away = time.monotonic() - begin
        during = self._logs.hours_since(begin) / away
        answered = self._web.between(begin, time.monotonic())
        outage.end()
        # Ours was lost with PostgreSQL too.
        connections.close_all()
        recovery = self._await_recovery(outage)
        back = time.monotonic()
        time.sleep(steady)
        after = self._logs.hours_since(back) / (time.monotonic() - back)
        return OutageLine(at_seconds, outage.title, away, before, during, after, recovery, answered)

    def _await_work(self, *, since: float) -> None:
        """Wait until the first hour is sealed, so that an outage does not hit idle workers."""
        wait_while(
            lambda: self._logs.hours_since(since) == 0,
            seconds_max=self._pace.recovery_seconds_max,
            what="The first hour of a part",
        )

    def _await_recovery(self, outage: HostOutage) -> float | None:
        if self._pace.is_hurried:
            end_leases()
            return None
        ended = time.monotonic()

        def is_missing() -> bool:
            if outage.is_back is not None and not outage.is_back():
                return True
            return not all(self._logs.works_since(ended, name) for name in outage.hosts)

        def waits() -> bool:
            return is_missing() and count_waiting() > 0

        what = f"The recovery from: {outage.title}"
        seconds = wait_while(waits, seconds_max=self._pace.recovery_seconds_max, what=what)
        return None if is_missing() else seconds


def outages_of(site: Site) -> list[HostOutage]:
    """Return every outage of a run, in the order in which they are run."""
    first, second, third = WORKERS
    prometheus = next(iter(site.prometheus_of.values()))
    sources, brokers = tuple(site.prometheus_of.values()), tuple(site.broker.valkeys)
    away = _Outages(site)
    return [
        away.killed(f"{third} killed", third, hosts=(third,)),
        away.killed(f"{WEBS[0]} killed", WEBS[0], is_back=lambda: is_ready(site.web_urls()[0])),
        away.link(first, [DATABASE], "PostgreSQL", LinkCut.REFUSED),
        away.link(second, [DATABASE], "PostgreSQL", LinkCut.SILENT),
        away.link(third, brokers, "Valkey", LinkCut.REFUSED),
        away.link(first, brokers, "Valkey", LinkCut.SILENT),
        away.link(second, sources, "every Prometheus", LinkCut.REFUSED),
        away.link(third, sources, "every Prometheus", LinkCut.SILENT),
        away.killed(f"{prometheus} killed", prometheus, is_back=away.metering_again()),
        away.broker_lost(),
        away.killed("PostgreSQL killed", DATABASE, hosts=WORKERS),
        away.silent_for_all("PostgreSQL silent for all hosts", DATABASE),
        away.killed("all worker hosts killed", *WORKERS, hosts=WORKERS),
    ]


class _Outages:
    """Makes the outages of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def killed(
        self,
        title: str,
        *names: str,
        hosts: tuple[str, ...] = (),
        is_back: Callable[[], bool] | None = None,
    ) -> HostOutage:
        """Return the loss of some hosts, which are started again."""

        def kill() -> None:
            for name in names:
                self._site.kill(name)

        return HostOutage(title, kill, partial(self._restart, names), hosts, is_back)

    def link(self, host: str, targets: Sequence[str], name: str, how: LinkCut) -> HostOutage:
        """Return the loss of the links from a worker host to others."""
        network = self._site.network
        verb = "refuses" if how is LinkCut.REFUSED else "is silent"
        return HostOutage(
            f"link from {host} to {name} {verb}",
            partial(_for_each, partial(network.cut, how=how), [host], targets),
            partial(_for_each, network.mend, [host], targets),
            (host,),
        )

    def silent_for_all(self, title: str, target: str) -> HostOutage:
        """Return the loss of all links to a host, on which nobody hears of it."""
        network, origins = self._site.network, (*WORKERS, *WEBS)
        return HostOutage(
            title,
            partial(_for_each, partial(network.cut, how=LinkCut.SILENT), origins, [target]),
            partial(_for_each, network.mend, origins, [target]),
            WORKERS,
        )

    def broker_lost(self) -> HostOutage:
        """Return the loss of the broker: with all it held, or until its replica is promoted."""
        broker, lost = self._site.broker, list[str]()

        def empty() -> None:
            self._site.kill(BROKER)
            shutil.rmtree(broker.primary.folder / "appendonlydir")

        def promote() -> None:
            lost.append(broker.host_of_primary())
            self._site.kill(lost[0])
            broker.await_promotion(lost=lost[0])

        if not broker.sentinels:
            title, restart = "Valkey killed and emptied", partial(self._restart, [BROKER])
            return HostOutage(title, empty, restart, WORKERS)
        title = "primary Valkey killed, its replica promoted"
        return HostOutage(title, promote, partial(self._restart, lost), WORKERS)

    def metering_again(self) -> Callable[[], bool]:
        """Return whether the first cluster has a further hour since this was first asked."""
        slug, known = next(iter(self._site.prometheus_of)), list[int]()

        def is_back() -> bool:
            known.append(count_sealed(slug))
            return known[-1] > known[0]

        return is_back

    def _restart(self, names: Sequence[str]) -> None:
        for name in names:
            self._site.restart(name)


def _for_each(
    step: Callable[[str, str], None], origins: Sequence[str], targets: Sequence[str]
) -> None:
    for origin in origins:
        for target in targets:
            step(origin, target)
