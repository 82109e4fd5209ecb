"""Run GPU Ledger on several hosts through outages: `python -m simulator.hosts --help`."""

import os
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import django
from rich.console import Console

from embedded.signals import orderly_end
from simulator.cluster.exporters.prometheus_history import import_history
from simulator.hosts.backlog import HISTORY_MARGIN, Backlog
from simulator.hosts.networks import LoopbackNetwork, NamespaceNetwork, Network
from simulator.hosts.site import Site


def main() -> int:
    """Run it; return 0 when every hour was sealed once and billed as the oracle says."""
    options = _options()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    network: Network = LoopbackNetwork()
    if options.network == "namespaces":
        if refusal := NamespaceNetwork.refusal():
            console.print(f"Left out: network namespaces ({refusal}).")
            return 0
        network = NamespaceNetwork()
    prefix = "gpu-ledger-hosts-"
    with orderly_end(), tempfile.TemporaryDirectory(prefix=prefix) as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        backlog = Backlog.before(now(), clusters=options.clusters, hours=options.hours)
        site = Site(
            folder,
            network=network,
            clusters=[cluster.slug for cluster in backlog.scenario.clusters],
            histories=options.histories or folder / "histories",
            processes=options.processes,
            has_sentinels=options.sentinels,
        )
        stack.callback(site.close)
        return _run(site, backlog, options, console)


def _run(site: Site, backlog: Backlog, options: Namespace, console: Console) -> int:
    begin = time.monotonic()
    _import_histories(site, backlog)
    site.start_servers()
    console.print(f"Histories and servers took {time.monotonic() - begin:.0f} s.")
    os.environ |= site.environment
    django.setup()
    # Models are there from here on.
    from simulator.hosts.ledger import make_due, seed_fleet, settle  # noqa: PLC0415
    from simulator.hosts.outages import OutageRun, Pace, outages_of  # noqa: PLC0415
    from simulator.hosts.report import print_line, print_outcome, print_table  # noqa: PLC0415

    pace = Pace(options.away, options.steady, options.patience, options.hurry)
    outages = [
        outage
        for number, outage in enumerate(outages_of(site), start=1)
        if not options.only or number in options.only
    ]
    ends = backlog.parts(len(outages) + 1 if options.in_parts else 1)
    seed_fleet(backlog, {slug: site.prometheus_url(slug) for slug in site.prometheus_of}, at=now())
    make_due(ends.pop(0), at=now())
    site.start_product()
    run = OutageRun(site, pace)

    def make_more_due() -> None:
        make_due(ends.pop(0), at=now())

    try:
        run.await_steady()
        console.print(
            f"{backlog.windows} hours of {options.clusters} clusters; {site.network.title}."
        )
        lines = [
            print_line(line, console)
            for line in run.run_each(outages, make_more_due=make_more_due if ends else None)
        ]
        rest = run.await_all()
    finally:
        run.stop()
    print_table(lines, console)
    return print_outcome(settle(backlog), rest, console)


def now() -> datetime:
    """Return the present moment: this is an entry point."""
    return datetime.now(UTC)


def _import_histories(site: Site, backlog: Backlog) -> None:
    for cluster in backlog.scenario.clusters:
        import_history(
            site.prometheus[cluster.slug],
            replace(backlog.scenario, clusters=(cluster,)),
            begin_at=backlog.begin_at - HISTORY_MARGIN,
            until=backlog.end_at + HISTORY_MARGIN,
            is_sparse=True,
        )


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m simulator.hosts", description=__doc__)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--hours", type=int, help="of each cluster; a whole month without")
    parser.add_argument("--processes", type=int, default=1, help="of each worker that meters")
    parser.add_argument(
        "--sentinels", action="store_true", help="give Valkey a replica, which sentinels promote"
    )
    parser.add_argument("--network", choices=("loopback", "namespaces"), default="loopback")
    parser.add_argument("--away", type=float, default=30, help="seconds of each outage")
    parser.add_argument("--steady", type=float, default=15, help="seconds between outages")
    parser.add_argument("--patience", type=float, default=900, help="seconds for each recovery")
    parser.add_argument(
        "--in-parts",
        action="store_true",
        help="let as many hours become due before each outage, instead of all at once",
    )
    parser.add_argument(
        "--hurry",
        action="store_true",
        help="wait for no recovery, and end leases at once instead of after five minutes",
    )
    parser.add_argument(
        "--histories", type=Path, help="folder that keeps them for the next run of the same month"
    )
    parser.add_argument("--only", type=int, nargs="*", default=(), help="numbers of outages")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
