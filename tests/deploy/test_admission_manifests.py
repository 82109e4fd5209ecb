"""The admission server in a cluster: its manifests fit together, and all of it can be removed."""

from typing import Any

import pytest

from config.env import Environment
from config.management.commands.serve_admission import GRACEFUL_SECONDS, Command, admission_command
from quotas.domain.admission.webhook_configuration import Registration, configurations
from tests.deploy.files import ROOT, documents_of

FOLDER = ROOT / "deploy" / "kubernetes"
FILES = (
    "admission.yaml",
    "admission-rbac.yaml",
    "admission-certificate.yaml",
    "admission-monitor.yaml",
)
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding"}
PAGE = (ROOT / "docs/how-to/install-the-webhook.md").read_text("utf-8")
LABELS = {"app.kubernetes.io/name": "gpu-ledger-admission"}
SELECTOR = "app.kubernetes.io/managed-by=gpu-ledger"
JSON = dict[str, Any]


def objects(file: str) -> dict[tuple[str, str], JSON]:
    """Return a file's objects by kind and name."""
    read = [dict(one) for one in documents_of((FOLDER / file).read_text("utf-8"))]
    return {(one["kind"], one["metadata"]["name"]): one for one in read}


def found(file: str, kind: str, name: str = "gpu-ledger-admission") -> JSON:
    return objects(file)[kind, name]


def pod() -> JSON:
    template: JSON = found("admission.yaml", "Deployment")["spec"]["template"]
    assert template["metadata"]["labels"] == LABELS
    spec: JSON = template["spec"]
    return spec


def options() -> dict[str, Any]:
    python, manage, name, *arguments = pod()["containers"][0]["command"]
    assert (python, manage, name) == ("python", "manage.py", "serve_admission")
    return vars(Command().create_parser("manage.py", name).parse_args(arguments))


def test_two_servers_run_apart_and_one_always_stays() -> None:
    deployment = found("admission.yaml", "Deployment")["spec"]
    budget = found("admission.yaml", "PodDisruptionBudget")["spec"]
    (apart,) = pod()["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]

    assert deployment["replicas"] == 2
    assert deployment["selector"] == {"matchLabels": LABELS}
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget == {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
    assert apart["podAffinityTerm"] == {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": LABELS},
    }


def test_a_server_leaves_the_service_before_it_stops_and_has_time_to_answer() -> None:
    (container,) = pod()["containers"]
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]

    assert command == "sleep"
    assert pod()["terminationGracePeriodSeconds"] >= int(seconds) + GRACEFUL_SECONDS


def test_the_ports_are_those_the_server_listens_on() -> None:
    (container,) = pod()["containers"]
    ports = {one["name"]: str(one["containerPort"]) for one in container["ports"]}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness")}

    assert options()["bind"].endswith(f":{ports['webhook']}")
    assert options()["probe_bind"].endswith(f":{ports['probes']}")
    assert probes == {
        "startup": {"path": "/readyz", "port": "probes"},
        "liveness": {"path": "/healthz", "port": "probes"},
    }
    assert container["readinessProbe"]["httpGet"] == probes["startup"]
    (served,) = found("admission.yaml", "Service")["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (Registration("", "").port, "webhook")


def test_the_server_takes_its_options_and_finds_its_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounts = {one["name"]: one["mountPath"] for one in pod()["containers"][0]["volumeMounts"]}
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod()["volumes"][:2]}
    monkeypatch.setattr("os.access", lambda *_: True)

    assert "--cert-reqs" in admission_command(**options())
    assert options()["certificate"] == f"{mounts['tls']}/tls.crt"
    assert options()["key"] == f"{mounts['tls']}/tls.key"
    assert options()["client_ca"] == f"{mounts['client-ca']}/client-ca.crt"
    certificate = found("admission-certificate.yaml", "Certificate")["spec"]
    assert secrets == {"tls": certificate["secretName"], "client-ca": "gpu-ledger-client-ca"}
    assert "secret generic gpu-ledger-client-ca --from-file=client-ca.crt" in PAGE


def test_the_certificate_is_for_the_name_that_api_servers_use() -> None:
    certificate = found("admission-certificate.yaml", "Certificate")["spec"]
    service = found("admission.yaml", "Service")["metadata"]
    authority = found("admission-certificate.yaml", "Certificate", "gpu-ledger-admission-ca")

    assert certificate["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    assert found("admission-certificate.yaml", "Issuer")["spec"] == {
        "ca": {"secretName": authority["spec"]["secretName"]}
    }


def test_prometheus_finds_the_metrics_of_each_server() -> None:
    monitor = found("admission-monitor.yaml", "ServiceMonitor")["spec"]
    service = found("admission-monitor.yaml", "Service", "gpu-ledger-admission-metrics")

    # The rules and the compose file know the job by this name.
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "gpu-ledger-admission"
    assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert service["spec"]["selector"] == LABELS
    assert [one["name"] for one in service["spec"]["ports"]] == [
        one["port"] for one in monitor["endpoints"]
    ]


def test_the_server_finds_its_own_token_where_the_cluster_names_it() -> None:
    mounts = {one["name"]: one["mountPath"] for one in pod()["containers"][0]["volumeMounts"]}
    (volume,) = (one for one in pod()["volumes"] if one["name"] == "cluster")
    token, authority = volume["projected"]["sources"]
    account = found("admission-rbac.yaml", "ServiceAccount")["metadata"]["name"]
    folder = Environment.model_fields["CLUSTER_SECRETS_DIR"].default

    assert mounts["cluster"] == f"{folder}/hopper"
    assert token["serviceAccountToken"]["path"] == "token"
    assert authority["configMap"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    assert pod()["serviceAccountName"] == account
    binding = found("admission-rbac.yaml", "ClusterRoleBinding")
    assert (binding["roleRef"]["name"], binding["subjects"][0]["name"]) == (account, account)
    assert "`file:<slug>/token`" in PAGE


def test_every_object_is_in_one_namespace_and_has_the_label() -> None:
    for file in FILES:
        for one in objects(file).values():
            is_inside = one["kind"] not in CLUSTER_WIDE
            assert one["metadata"].get("namespace") == ("gpu-ledger" if is_inside else None)
            assert one["metadata"]["labels"].items() >= LABELS.items()


def test_the_page_removes_what_it_installs_and_the_configurations_first() -> None:
    removal = PAGE[PAGE.index("## Uninstall") :]
    steps = [removal.index(SELECTOR), *(removal.index(file) for file in FILES)]
    key, value = SELECTOR.split("=")

    assert steps[0] == min(steps)
    for configuration in configurations(Registration("hopper", "x", url="https://gpu.test")):
        assert configuration["metadata"]["labels"] == {key: value}
        assert configuration["kind"].lower() + "s" in removal
    for secret in ("gpu-ledger-admission-tls", "gpu-ledger-admission-ca", "gpu-ledger-client-ca"):
        assert secret in removal
    assert all(PAGE.index(file) < PAGE.index("## Uninstall") for file in FILES)
