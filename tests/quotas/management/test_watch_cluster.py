"""`manage.py watch_cluster` with quotas: which clusters' ResourceQuotas it keeps."""

import threading

import pytest
from django.core.management import get_commands, load_command_class

from metering.management.commands.watch_cluster import WatchCrew
from quotas.management.commands import watch_cluster as command
from quotas.services.enforcement.watching import EnforcedCluster, QuotaWatcher
from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from tests.support.builders import make_cluster

pytestmark = pytest.mark.django_db


def test_it_replaces_the_command_of_metering_and_keeps_the_ledger_too() -> None:
    found = load_command_class(get_commands()["watch_cluster"], "watch_cluster")

    assert isinstance(found, command.Command)
    assert [type(crew) for crew in found.crews()] == [WatchCrew, command.QuotaCrew]


def test_it_keeps_clusters_whose_quotas_are_resource_quotas() -> None:
    make_cluster("hopper")
    make_cluster("ampere", is_watched=True)
    make_cluster("queued", quota_target="kueue")
    make_cluster("closed", state="closed")
    make_cluster("unreachable", kubernetes_url="", credential_reference="")
    crew = command.QuotaCrew()

    assert [crew.name_of(each) for each in crew.find(())] == ["quotas-ampere", "quotas-hopper"]
    assert [crew.name_of(each) for each in crew.find(["hopper"])] == ["quotas-hopper"]


def test_a_cluster_is_kept_with_the_enforcer_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_cluster("hopper")
    kept: list[tuple[EnforcedCluster, QuotaWatcher]] = []
    monkeypatch.setattr(
        command, "keep_quotas", lambda *, cluster, watcher: kept.append((cluster, watcher))
    )
    crew, stop = command.QuotaCrew(), threading.Event()
    (hopper,) = crew.find(())

    crew.keep(hopper, stop)

    ((cluster, watcher),) = kept
    assert cluster.endpoint.slug == "hopper"
    assert isinstance(watcher.watch, SimulatedQuotaEnforcer)
    assert isinstance(watcher.enforcer, SimulatedQuotaEnforcer)
    assert watcher.stop is stop
