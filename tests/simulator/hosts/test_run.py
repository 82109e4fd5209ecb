"""A small run on several hosts: hosts are killed, links are cut, and all is billed once."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from embedded.stack import ROOT
from simulator.hosts.backlog import Backlog
from tests.support.sampling import soaked

CLUSTERS, HOURS = 4, 28
OUTAGES = {
    "worker-3 killed": 1,
    "web-1 killed": 2,
    "link from worker-1 to PostgreSQL refuses": 3,
    "link from worker-1 to Valkey is silent": 6,
    "link from worker-3 to every Prometheus is silent": 8,
    "PostgreSQL killed": 11,
}
BROKER_LOST = 10
BROKER_TITLES = {
    True: "primary Valkey killed, its replica promoted",
    False: "Valkey killed and emptied",
}
AT = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.enable_socket
@pytest.mark.seconds(80)
@pytest.mark.parametrize(
    ("network", "has_sentinels"), [soaked(("loopback", True)), soaked(("namespaces", False))]
)
def test_every_hour_is_billed_once_whatever_host_or_link_is_lost(
    network: str,
    has_sentinels: bool,  # noqa: FBT001 - A parameter of pytest.
) -> None:
    outages = OUTAGES | {BROKER_TITLES[has_sentinels]: BROKER_LOST}
    command = [
        *(sys.executable, "-m", "simulator.hosts", "--network", network),
        *("--clusters", str(CLUSTERS), "--hours", str(HOURS), "--in-parts", "--hurry"),
        *("--away", "2", "--steady", "1", "--patience", "120"),
        *(["--sentinels"] if has_sentinels else []),
        *("--only", *map(str, outages.values())),
    ]

    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    if "Left out" in done.stdout:
        assert network == "namespaces"
        return
    lines = done.stdout.splitlines()
    for title in outages:
        assert any(title in line for line in lines), done.stdout
    assert f"{CLUSTERS * HOURS} of {CLUSTERS * HOURS} hours sealed" in done.stdout
    assert "All hours are billed once, to the second." in lines


def test_a_fleet_has_pods_of_its_own_in_every_cluster_and_the_demos_tenants() -> None:
    backlog = Backlog.before(AT, clusters=3, hours=6)

    scenario = backlog.scenario
    assert [cluster.slug for cluster in scenario.clusters] == ["hopper-1", "ampere-1", "hopper-2"]
    uids = [pod.uid for cluster in scenario.clusters for pod in cluster.pods]
    assert len(uids) == len(set(uids))
    bound = {cluster for cluster, _ in scenario.bindings}
    assert bound == {"hopper-1", "ampere-1", "hopper-2"}
    assert (backlog.label, backlog.windows) == ("2026-10", 18)
    assert backlog.end_at == datetime(2026, 11, 1, tzinfo=UTC)


def test_a_backlog_in_parts_is_divided_into_whole_hours() -> None:
    backlog = Backlog.before(AT, clusters=1, hours=10)

    hours = [(end - backlog.begin_at).total_seconds() / 3600 for end in backlog.parts(4)]

    assert hours == [2, 5, 7, 10]


def test_prices_that_change_before_the_first_hour_are_left_out() -> None:
    late = Backlog.before(AT, clusters=1, hours=24)
    whole = Backlog.before(AT, clusters=1, hours=None)

    for backlog, days in ((late, {0}), (whole, {0, 16})):
        found = {price.from_day for book in backlog.books for price in book.prices}
        assert found == days
