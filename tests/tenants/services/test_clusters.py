"""Tests of registering, describing and closing clusters."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tenants.domain.actors import system_actor
from tenants.domain.clusters import NamedSecret, read_pin, secrets_by_name
from tenants.domain.errors import InvalidInputError
from tenants.domain.refusals import OpenBindingsError, SlugTakenError, StaleVersionError
from tenants.models import AuditEntry, Cluster
from tenants.services.clusters import REFERENCE_OF, close_cluster, register_cluster, update_cluster
from tests.support.builders import (
    AT,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
)

pytestmark = pytest.mark.django_db
SEED = system_actor("seed")


def test_a_registered_cluster_keeps_what_was_said_of_it() -> None:
    cluster = register_cluster(
        slug="hopper",
        name="Hopper",
        metered_from=MONTH_START,
        kubernetes_url="https://10.0.0.1:6443",
        prometheus_url="http://127.0.0.1:9090/prom",
        prometheus_credential_reference="basic-file:hopper/mimir",
        prometheus_scope_org_id="research|platform",
        selector_label="cluster",
        selector_value="hopper",
        scrape_interval_seconds=15,
        user_label="billing_example_com_user",
        offered_resources=("nvidia.com/gpu",),
        label_aliases={"hostname": ("Hostname", "node")},
        actor=SEED,
        at=AT,
    )

    stored = Cluster.objects.get(pk=cluster.pk)
    assert stored.label_aliases == {"hostname": ["Hostname", "node"]}
    assert stored.offered_resources == ["nvidia.com/gpu"]
    assert stored.prometheus_credential_reference == "basic-file:hopper/mimir"
    assert stored.prometheus_scope_org_id == "research|platform"
    assert AuditEntry.objects.get().facts == {
        "slug": "hopper",
        "metered_from": MONTH_START.isoformat(),
    }


def test_every_problem_of_a_cluster_is_reported_at_once() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        register_cluster(
            slug="hopper",
            name="Hopper",
            metered_from=MONTH_START + timedelta(minutes=5),
            kubernetes_url="http://10.0.0.1",
            prometheus_url="ftp://10.0.0.1",
            prometheus_credential_reference="eyJhbGciOi.secret",
            prometheus_scope_org_id="a\nb",
            selector_label="cluster",
            scrape_interval_seconds=0,
            user_label="a b",
            offered_resources=["gpu"],
            label_aliases={"hostname": []},
            metric_aliases={"a-b": ["x"]},
            actor=SEED,
            at=AT,
        )

    assert {p.field for p in refusal.value.problems} == {
        "scrape_interval_seconds",
        "metered_from",
        "kubernetes_url",
        "prometheus_url",
        "prometheus_credential_reference",
        "prometheus_scope_org_id",
        "selector_value",
        "user_label",
        "offered_resources.0",
        "label_aliases.hostname",
        "metric_aliases.a-b",
    }
    assert not Cluster.objects.exists()


def test_a_cluster_slug_is_used_once() -> None:
    make_cluster("hopper")

    with pytest.raises(SlugTakenError):
        register_cluster(slug="hopper", name="H", metered_from=MONTH_START, actor=SEED, at=AT)

    assert Cluster.objects.count() == 1


def test_a_change_is_checked_together_with_what_stays() -> None:
    cluster = make_cluster(selector_label="cluster", selector_value="hopper")

    with pytest.raises(InvalidInputError) as refusal:
        update_cluster(cluster=cluster, changes={"selector_value": ""}, actor=SEED, at=AT)
    changed = update_cluster(
        cluster=cluster,
        changes={"selector_value": "", "selector_label": ""},
        expected_version=1,
        actor=SEED,
        at=AT,
    )

    assert refusal.value.field == "selector_value"
    assert (changed.selector_label, changed.version) == ("", 2)


def test_a_cluster_changes_only_from_its_newest_version() -> None:
    cluster = make_cluster(version=4)

    with pytest.raises(StaleVersionError):
        update_cluster(
            cluster=cluster, changes={"name": "X"}, expected_version=3, actor=SEED, at=AT
        )
    with pytest.raises(ValueError, match="not editable"):
        update_cluster(cluster=cluster, changes={"closed_at": AT}, actor=SEED, at=AT)

    assert not AuditEntry.objects.exists()


def test_a_cluster_closes_when_none_of_its_namespaces_is_bound() -> None:
    cluster = make_cluster()
    binding = bind(cluster, "a", make_project(make_organization()))

    with pytest.raises(OpenBindingsError):
        close_cluster(cluster=cluster, actor=SEED, at=AT)
    binding.valid = (MONTH_START, AT)
    binding.save(update_fields=["valid"])
    closed = close_cluster(cluster=cluster, expected_version=1, actor=SEED, at=AT)

    assert (closed.state, closed.closed_at, closed.version) == ("closed", AT, 2)


def test_a_cluster_closed_again_keeps_when_it_was_closed() -> None:
    cluster = make_cluster()
    close_cluster(cluster=cluster, actor=SEED, at=AT)

    again = close_cluster(cluster=cluster, actor=SEED, at=AT + timedelta(hours=1))

    assert (again.closed_at, again.version) == (AT, 2)
    assert AuditEntry.objects.filter(action="tenants:cluster:close").count() == 1


def test_a_watched_cluster_keeps_a_way_to_be_reached() -> None:
    cluster = make_cluster()

    watched = update_cluster(cluster=cluster, changes={"is_watched": True}, actor=SEED, at=AT)
    with pytest.raises(InvalidInputError) as refusal:
        update_cluster(cluster=cluster, changes={"kubernetes_url": ""}, actor=SEED, at=AT)
    moved = update_cluster(
        cluster=cluster,
        changes={"kubernetes_url": "", "credential_reference": "in-cluster"},
        actor=SEED,
        at=AT,
    )

    assert watched.is_watched
    assert (refusal.value.field, refusal.value.problems[0].code) == ("is_watched", "not_reachable")
    assert (moved.is_watched, moved.kubernetes_url) == (True, "")


def test_admission_takes_a_watched_cluster_and_keeps_it_watched() -> None:
    cluster = make_cluster()

    with pytest.raises(InvalidInputError) as unwatched:
        update_cluster(cluster=cluster, changes={"admission_mode": "enforce"}, actor=SEED, at=AT)
    changes = {
        "is_watched": True,
        "admission_mode": "enforce",
        "admission_on_failure": "deny",
        "kubernetes_user_prefix": "oidc:",
        "trusted_controllers": ["system:serviceaccount:kubeflow:operator"],
        "quota_target": "kueue",
    }
    admitting = update_cluster(cluster=cluster, changes=changes, actor=SEED, at=AT)
    with pytest.raises(InvalidInputError) as unwatching:
        update_cluster(cluster=cluster, changes={"is_watched": False}, actor=SEED, at=AT)

    assert (unwatched.value.field, unwatched.value.problems[0].code) == (
        "admission_mode",
        "not_watched",
    )
    assert {name: getattr(admitting, name) for name in changes} == changes
    assert unwatching.value.problems[0].code == "not_watched"
    cluster.refresh_from_db()
    assert (cluster.is_watched, cluster.admission_mode) == (True, "enforce")


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        ("kubernetes_url", "credential_reference"),
        ("prometheus_url", "prometheus_credential_reference"),
    ],
)
def test_a_new_address_drops_the_credential_of_the_old_one(url: str, reference: str) -> None:
    """The attack: a listener's address, and the credential that is there already."""
    old, secret = "https://old.example.test", "file:hopper/token"
    cluster = make_cluster(**{url: old, reference: secret})

    def change(**changes: str) -> str:
        changed = update_cluster(cluster=cluster, changes=changes, actor=SEED, at=AT)
        return str(getattr(changed, reference))

    assert change(**{url: old}) == secret
    assert change(**{url: "https://evil.example.test"}) == ""
    assert change(**{url: old, reference: secret}) == secret


def pinned(pin: str) -> tuple[NamedSecret]:
    (secret,) = secrets_by_name(SECRET)
    return (replace(secret, origins=read_pin(pin)),)


LISTENER = "https://listener.example.test"
SECRET = "file:hopper/token"


@pytest.mark.parametrize(
    "naming",
    ["file:hopper/token", "file:hopper//./token", "file:hopper/..data/token"],
)
@pytest.mark.parametrize(("url", "reference"), list(REFERENCE_OF.items()))
def test_a_secret_goes_to_no_listener_by_its_name(url: str, reference: str, naming: str) -> None:
    """The attack: another cluster, which names this one's secret and the listener's address."""
    naming = naming.replace("file", "basic-file") if url == "prometheus_url" else naming
    who: dict[str, Any] = {"metered_from": MONTH_START, "actor": SEED, "at": AT}
    own: dict[str, Any] = {url: "https://hopper.example.test", reference: naming}
    others: dict[str, Any] = {url: LISTENER, reference: naming}
    register_cluster(slug="hopper", name="H", **own, **who)

    with pytest.raises(InvalidInputError) as refusal:
        register_cluster(slug="evil", name="E", **others, **who)

    (problem,) = refusal.value.problems
    assert (problem.field, problem.code) == (reference, "secret_of_another_host")
    assert "hopper" in problem.message
    assert list(Cluster.objects.values_list("slug", flat=True)) == ["hopper"]


def test_a_secret_that_was_cleared_goes_to_no_listener_either() -> None:
    cluster = make_cluster()

    def change(**changes: str) -> Cluster:
        return update_cluster(cluster=cluster, changes=changes, actor=SEED, at=AT)

    change(kubernetes_url="https://hopper.example.test", credential_reference=SECRET)
    with pytest.raises(InvalidInputError):
        change(kubernetes_url=LISTENER, credential_reference=SECRET)
    change(kubernetes_url=LISTENER)
    with pytest.raises(InvalidInputError) as refusal:
        change(credential_reference=SECRET)
    with pytest.raises(InvalidInputError):
        change(prometheus_url=LISTENER, prometheus_credential_reference=f"basic-{SECRET}")

    assert refusal.value.problems[0].code == "secret_of_another_host"
    cluster.refresh_from_db()
    assert (cluster.credential_reference, cluster.prometheus_credential_reference) == ("", "")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.test\\@hopper.example.test",
        "https://hopper.example.test@evil.test",
        "https://evil.test#@hopper.example.test",
    ],
)
def test_a_url_that_two_clients_read_differently_gets_no_secret(url: str) -> None:
    secrets = {SECRET: pinned("hopper.example.test")}

    with pytest.raises(InvalidInputError):
        update_cluster(
            cluster=make_cluster(),
            changes={"prometheus_url": url, "prometheus_credential_reference": SECRET},
            secrets=secrets,
            actor=SEED,
            at=AT,
        )


def test_an_operators_pin_decides_which_hosts_get_a_secret() -> None:
    cluster, secrets = make_cluster(), {SECRET: pinned("new.example.test:6443")}

    def change(url: str) -> Cluster:
        changes = {"kubernetes_url": url, "credential_reference": SECRET}
        return update_cluster(cluster=cluster, changes=changes, secrets=secrets, actor=SEED, at=AT)

    changed = change("https://NEW.example.test:6443/")
    with pytest.raises(InvalidInputError) as refusal:
        change("https://old.example.test")

    assert changed.credential_reference == SECRET
    assert refusal.value.problems[0].code == "secret_of_another_host"


def registered(url: str) -> Cluster:
    return register_cluster(
        slug="hopper",
        name="Hopper",
        metered_from=MONTH_START,
        prometheus_url=url,
        actor=SEED,
        at=AT,
    )


@pytest.mark.parametrize("url", ["http://prometheus:9090", "http://prometheus.monitoring:9090/p"])
def test_a_server_may_be_named_by_its_host_alone(url: str) -> None:
    assert Cluster.objects.get(pk=registered(url).pk).prometheus_url == url


@pytest.mark.parametrize("url", ["http://-prometheus:9090", "http://pro metheus:9090", "http://"])
def test_a_host_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        registered(url)

    assert [problem.field for problem in refusal.value.problems] == ["prometheus_url"]
