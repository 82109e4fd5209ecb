"""Webhooks that name the bound namespaces follow the bindings, where the cluster allows it."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from quotas.domain.admission.webhook_configuration import (
    Registration,
    configurations,
    selected_namespaces,
)
from quotas.services.enforcement.selectors import follow_bindings
from quotas.tasks.enforcement import tick
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import AuditEntry, Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.enforcing import SYSTEM
from tests.support.shared_rows import shared_rows

DAY = timedelta(days=1)


@shared_rows
def hopper(cast: Cast) -> Cluster:
    """Return a cluster that enforces, with one namespace of a project."""
    made = make_cluster("hopper", is_watched=True, admission_mode="enforce")
    bind(made, "llm", cast.llm)
    return made


def install(live: ReceivingCluster, bound: tuple[str, ...] | None) -> None:
    """Put into the cluster what is printed for it."""
    registration = Registration("hopper", "", service="a/b", bound=bound)
    live.webhooks = tuple(configurations(registration)[1]["webhooks"])


def follow() -> int:
    return follow_bindings(enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=AT)


def selected(live: ReceivingCluster) -> list[str] | None:
    named = selected_namespaces({"webhooks": list(live.webhooks)})
    return None if named is None else sorted(named)


def facts() -> list[dict[str, object]]:
    entries = AuditEntry.objects.filter(action="quotas:selectors:follow").order_by("pk")
    return [dict(entry.facts) for entry in entries]


def test_a_namespace_is_named_once_it_is_bound_and_no_more_when_that_has_ended(
    live: ReceivingCluster, hopper: Cluster, cast: Cast
) -> None:
    install(live, ("llm", "unbound"))
    bind(hopper, "vision", cast.llm, begin_at=AT + DAY)

    assert [follow(), follow()] == [1, 0]

    assert selected(live) == ["llm", "vision"]
    assert facts() == [{"cluster": "hopper", "added": ["vision"], "removed": ["unbound"]}]


def test_without_a_bound_namespace_none_is_named_until_there_is_one(
    live: ReceivingCluster, cast: Cast
) -> None:
    hopper = make_cluster("hopper", is_watched=True, admission_mode="enforce")
    install(live, ("llm",))

    assert (follow(), selected(live)) == (1, [])

    bind(hopper, "vision", cast.llm)
    assert (follow(), selected(live)) == (1, ["vision"])


@pytest.mark.usefixtures("hopper")
def test_webhooks_for_all_namespaces_stay_as_they_are(live: ReceivingCluster) -> None:
    install(live, None)
    before = live.webhooks

    assert (follow(), live.webhooks, facts()) == (0, before, [])


@pytest.mark.usefixtures("hopper")
def test_the_rest_of_the_webhooks_stays_as_it_was_applied(live: ReceivingCluster) -> None:
    install(live, ("llm",))
    wanted = live.webhooks
    install(live, ("other",))

    follow()

    assert live.webhooks == wanted


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("reason", ["forbidden", "timeout"])
def test_where_the_cluster_does_not_allow_it_that_is_logged(
    live: ReceivingCluster, reason: str
) -> None:
    install(live, ("other",))
    live.may_follow = reason != "forbidden"
    live.failure = "" if reason == "forbidden" else reason

    with capture_logs() as logs:
        assert follow() == 0

    live.failure = ""
    assert [(line["event"], line["reason"]) for line in logs] == [
        ("quotas.selectors.not_followed", reason)
    ]
    assert (selected(live), facts()) == (["other"], [])


def test_a_cluster_without_admission_is_not_asked(live: ReceivingCluster, hopper: Cluster) -> None:
    Cluster.objects.filter(pk=hopper.pk).update(admission_mode="off")
    install(live, ("other",))

    assert (follow(), selected(live)) == (0, ["other"])


@pytest.mark.usefixtures("hopper")
def test_the_enforcement_task_follows(live: ReceivingCluster) -> None:
    install(live, ("other",))

    tick(AT, actor=SYSTEM)

    assert selected(live) == ["llm"]
