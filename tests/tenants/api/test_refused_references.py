"""Attacks with references and addresses of clusters: refused at registration, and audited."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from tenants.models import AuditEntry, Cluster
from tests.support.builders import make_cluster
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem
from tests.support.tenants.desk import enter

HERE = "/api/v1/clusters/"
NEW = {"slug": "hopper", "name": "Hopper", "metered_from": "2026-10-01T00:00:00Z"}
FORM = {
    "name": "Known",
    "metered_from_0": "2026-10-01",
    "metered_from_1": "00:00:00",
    "scrape_interval_seconds": "30",
    "offered_resources": '["nvidia.com/gpu"]',
    "label_aliases": "{}",
    "metric_aliases": "{}",
    "admission_mode": "off",
    "admission_on_failure": "allow",
    "trusted_controllers": "[]",
    "quota_target": "resource_quota",
}
SECRET = "eyJhbGciOi.secret-words"
EXEC = """
users: [{name: me, user: {exec: {command: /bin/sh}}}]
clusters: []
"""
CONFIG = '{"apiVersion":"v1","users":[{"name":"me","user":{"token":"sesame"}}]}'


@pytest.fixture
def secrets(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of secrets with a link that leads out, and a kubeconfig with a program."""
    monkeypatch.setenv("CLUSTER_SECRET_CONFIG", CONFIG)
    folder = tmp_path / "clusters"
    folder.mkdir()
    (tmp_path / "database-url").write_text("postgres://secret", encoding="utf-8")
    (folder / "leads-out").symlink_to(tmp_path / "database-url")
    (folder / "runs").write_text(EXEC, encoding="utf-8")
    (folder / "config").write_text(CONFIG, encoding="utf-8")
    (folder / "token").write_text("sesame", encoding="utf-8")
    (folder / "odd").write_text("users: 5", encoding="utf-8")
    settings.CLUSTER_SECRETS_DIR = folder
    return folder


ATTACKS = [
    ("prometheus_credential_reference", "file:../database-url", "path_forbidden"),
    ("prometheus_credential_reference", "file:/proc/self/environ", "path_forbidden"),
    ("prometheus_credential_reference", "basic-file:leads-out", "path_forbidden"),
    ("prometheus_credential_reference", "env:DATABASE_URL", "variable_forbidden"),
    ("prometheus_credential_reference", SECRET, "not_a_reference"),
    ("credential_reference", "file:leads-out", "path_forbidden"),
    ("credential_reference", "kubeconfig:leads-out", "path_forbidden"),
    ("credential_reference", "kubeconfig:runs", "path_forbidden"),
    ("credential_reference", "env:API_TOKEN_PEPPER", "variable_forbidden"),
    ("prometheus_credential_reference", "file:config", "secret_not_plain"),
    ("prometheus_credential_reference", "basic-file:config", "secret_not_plain"),
    ("prometheus_credential_reference", "basic-file:runs", "secret_not_plain"),
    ("prometheus_credential_reference", "basic-env:CLUSTER_SECRET_CONFIG", "secret_not_plain"),
    ("credential_reference", "file:config", "secret_not_plain"),
    ("credential_reference", "env:CLUSTER_SECRET_CONFIG", "secret_not_plain"),
    ("kubernetes_url", "https://169.254.169.254/latest", "address_forbidden"),
    ("kubernetes_url", "https://[64:ff9b::a9fe:a9fe]:6443", "address_forbidden"),
    ("prometheus_url", "http://[::ffff:a9fe:a9fe]:9090", "address_forbidden"),
    ("prometheus_url", "http://168.63.129.16:80", "address_forbidden"),
]


def refusals() -> list[tuple[str, dict[str, Any]]]:
    entries = AuditEntry.objects.filter(action="tenants:cluster:refuse").order_by("pk")
    assert all(entry.actor_label == "frank" for entry in entries)
    return [(entry.object_id, entry.facts) for entry in entries]


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(("field", "value", "code"), ATTACKS)
def test_what_leads_outside_is_refused_and_audited(
    cast: Cast, field: str, value: str, code: str
) -> None:
    frank, known = api_client(cast.frank), make_cluster("known")
    User.objects.filter(pk=cast.frank.pk).update(is_staff=True)
    cast.frank.refresh_from_db()

    made = frank.post(HERE, {**NEW, field: value}, headers={"Idempotency-Key": "one"})
    changed = frank.patch(f"{HERE}{known.pk}/", {field: value}, headers={"If-Match": '"1"'})
    page = enter(cast.frank).post(
        f"/admin/tenants/cluster/{known.pk}/change/", {**FORM, field: value}
    )

    for answer in (made, changed):
        assert problem(answer) == (422, "invalid_input")
        assert (field, code) in {(one["field"], one["code"]) for one in answer.json()["problems"]}
    assert page.status_code == 200
    known.refresh_from_db()
    assert getattr(known, field) != value
    assert Cluster.objects.count() == 1
    facts = {"code": "invalid_input", "fields": {field: code}}
    assert refusals()[:2] == [("", facts), (str(known.pk), facts)]
    assert len(refusals()) == 3
    assert SECRET not in str(refusals())


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("file", ["comes/later", "odd"])
def test_files_inside_and_files_that_come_later_are_accepted(cast: Cast, file: str) -> None:
    made = api_client(cast.frank).post(
        HERE,
        {
            **NEW,
            "kubernetes_url": "https://10.0.0.1:6443",
            "credential_reference": f"kubeconfig:{file}",
            "prometheus_url": "http://127.0.0.1:9090",
            "prometheus_credential_reference": "file:token",
        },
    )

    assert made.status_code == 201
    assert refusals() == []
