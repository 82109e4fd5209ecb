"""`manage.py webhook_manifests`: what is printed, and what is refused."""

from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError

from metering.models import DeviceClass
from quotas.models import AdmissionCoverage, EnforcementTarget
from tenants.models import Cluster
from tenants.selectors.clock import database_now
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project

pytestmark = pytest.mark.django_db
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def authority(tmp_path: Path) -> str:
    path = tmp_path / "ca.crt"
    path.write_text(PEM)
    return str(path)


def printed(authority: str, *more: str, where: str = "--service=gpu/ledger") -> list[Any]:
    out = StringIO()
    arguments = ("--cluster=hopper", where, f"--ca-file={authority}", *more)
    call_command("webhook_manifests", *arguments, stdout=out)
    return list(yaml.safe_load_all(out.getvalue()))


@pytest.mark.parametrize(
    ("mode", "on_failure", "policy"),
    [
        ("enforce", "deny", "Fail"),
        ("enforce", "allow", "Ignore"),
        ("warn", "deny", "Ignore"),
        ("off", "deny", "Ignore"),
    ],
)
def test_the_cluster_says_what_happens_when_nobody_answers(
    authority: str, mode: str, on_failure: str, policy: str
) -> None:
    make_cluster(admission_mode=mode, admission_on_failure=on_failure)

    mutating, validating = printed(authority)

    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert validating["webhooks"][0]["failurePolicy"] == policy
    assert validating["webhooks"][0]["clientConfig"]["service"]["name"] == "ledger"


@pytest.mark.parametrize(
    ("covered_at", "state", "is_early"),
    [(AT, "applied", True), (None, "pending", True), (None, "applied", False)],
    ids=["covered", "unapplied", "divided"],
)
def test_a_policy_that_lets_pods_in_is_too_early_while_limits_are_whole(
    authority: str,
    capsys: pytest.CaptureFixture[str],
    covered_at: datetime | None,
    state: str,
    is_early: bool,  # noqa: FBT001 - A case.
) -> None:
    cluster = make_cluster(admission_mode="enforce", admission_on_failure="allow")
    AdmissionCoverage.objects.create(cluster=cluster, covered_at=covered_at)
    EnforcementTarget.objects.create(
        cluster=cluster,
        namespace="llm",
        project=make_project(make_organization()),
        state=state,
        not_before=AT,
    )

    _, validating = printed(authority)

    assert validating["webhooks"][0]["failurePolicy"] == "Ignore"
    said = capsys.readouterr().err
    assert said.startswith("Namespaces of hopper may still have") == is_early
    Cluster.objects.update(admission_on_failure="deny")
    printed(authority)
    assert capsys.readouterr().err == ""


def test_options_reach_the_configuration(authority: str) -> None:
    cluster = make_cluster(offered_resources=["example.com/gpu"])
    DeviceClass.objects.create(
        cluster=cluster, name="h100", extended_resource="example.com/h100", created_at=AT
    )

    _, narrow = printed(authority)
    _, wide = printed(
        authority,
        "--without-match-conditions",
        "--exclude-namespace=monitoring",
        "--timeout=3",
        where="--url=https://gpu.example.test:8443/",
    )

    expression = narrow["webhooks"][0]["matchConditions"][0]["expression"]
    assert "k == 'example.com/gpu' || k == 'example.com/h100'" in expression
    pods = wide["webhooks"][0]
    assert "matchConditions" not in pods
    assert pods["clientConfig"]["url"] == "https://gpu.example.test:8443/admit/hopper/pods"
    assert pods["timeoutSeconds"] == 3
    (namespaces,) = pods["namespaceSelector"]["matchExpressions"]
    assert namespaces["values"] == [
        "gpu-ledger",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "monitoring",
    ]


def test_where_unbound_namespaces_are_allowed_those_of_projects_can_be_named(
    authority: str,
    settings: Any,  # noqa: ANN401 - pytest-django's own.
) -> None:
    now = database_now()
    cluster = make_cluster()
    project = make_project(make_organization())
    bind(cluster, "now", project)
    bind(cluster, "later", project, begin_at=now + timedelta(days=3))
    bind(cluster, "ended", project, end_at=now - timedelta(days=1))
    bind(make_cluster("ampere"), "elsewhere", project)
    only = "--only-bound-namespaces"

    with pytest.raises(CommandError, match="takes QUOTA_UNBOUND_NAMESPACES=allow"):
        printed(authority, only)
    settings.QUOTA_UNBOUND_NAMESPACES = "allow"
    assert named(authority) == ["NotIn"]
    assert named(authority, only) == ["NotIn", "later", "now"]


def named(authority: str, *more: str) -> list[str]:
    """Return what the namespace selectors say beside the excluded ones; all say the same."""
    selectors = [
        webhook["namespaceSelector"]["matchExpressions"]
        for configuration in printed(authority, *more)
        for webhook in configuration["webhooks"]
    ]
    assert all(one == selectors[0] for one in selectors)
    first, *others = selectors[0]
    return [first["operator"], *(name for one in others for name in one["values"])]


@pytest.mark.parametrize(
    ("where", "more", "said"),
    [
        ("--service=ledger", (), "namespace/name"),
        ("--url=http://gpu.example.test", (), "https"),
        ("--url=https://gpu.example.test?x=1", (), "https"),
        ("--service=gpu/ledger", ("--timeout=31",), "1 to 30"),
        ("--service=gpu/ledger", ("--ca-file=/does/not/exist",), "Cannot read"),
        ("--service=gpu/ledger", (f"--ca-file={__file__}",), "holds no certificate"),
    ],
    ids=["service", "plain", "query", "timeout", "missing", "no_certificate"],
)
def test_what_cannot_be_meant_is_refused(
    authority: str, where: str, more: tuple[str, ...], said: str
) -> None:
    make_cluster()

    with pytest.raises(CommandError, match=said):
        printed(authority, *more, where=where)


def test_a_cluster_nobody_knows_is_refused(authority: str) -> None:
    with pytest.raises(CommandError, match="No active cluster is called hopper"):
        printed(authority)
