"""The Helm chart: what it renders fits the API, the compose file, the settings and the queues."""

import json
import re
import subprocess
from functools import cache
from typing import Any

import pytest
from django.urls import resolve

from config.celery import QUEUES, app
from config.env import SECRET_NAMES, Environment
from tests.config.test_docs_site import program
from tests.deploy import api_types
from tests.deploy.files import ROOT, documents_of, service, yaml_of

JSON = dict[str, Any]
chart = program("chart")
FOLDER = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "gpu-ledger"
NEEDED = (
    "--set",
    "settings.ALLOWED_HOSTS=a.example",
    "--set",
    "settings.PUBLIC_URL=https://a.example",
)
HOME = (
    *NEEDED,
    *("--set", "homeCluster=true", "--set", "admission.enabled=true,admission.cluster=home"),
    *("--set", "cluster.watcher=true,cluster.enforcer=true,cluster.preemption=true"),
    *("--set", "cluster.selectors=home", "--set", "clusterSecrets.hopper=hopper-credentials"),
    *("--set", "workers.worker.scaling.by=hpa", "--set", "monitoring.rules=true"),
    *("--set", "monitoring.dashboards=true,monitoring.serviceMonitors=true"),
    *("--set", "archiveClaim=kept,settings.ARCHIVE_DIR=/srv/archives"),
    *("--set", "ingress.enabled=true,ingress.className=nginx"),
    *("--set", "image.pullSecrets={registry}"),
)
"""The service in a cluster that it meters itself."""
COMPONENTS = ("migrate", "web", "worker", "short-worker", "beat", "renewer", "watcher")


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    """Leave the chart out where there is no Helm; with CI=true nothing may be left out."""
    try:
        chart.program()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@cache
def plain() -> tuple[JSON, ...]:
    """Return the objects of the committed manifests."""
    files = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "values.yaml")
    return tuple(one for path in files for one in documents_of(path.read_text("utf-8")))


@cache
def rendered(*arguments: str) -> tuple[JSON, ...]:
    """Return the objects that Helm renders."""
    return tuple(one for one in documents_of(chart.render(*arguments)) if one)


def refusal(*arguments: str) -> str:
    """Return why Helm refuses values."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        chart.render(*arguments)
    return str(caught.value.stderr)


def of_kind(kind: str, objects: tuple[JSON, ...]) -> dict[str, JSON]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def workloads(objects: tuple[JSON, ...]) -> dict[str, JSON]:
    """Return Deployments and Jobs by their component."""
    found = {**of_kind("Deployment", objects), **of_kind("Job", objects)}
    return {name.removeprefix("gpu-ledger-"): one for name, one in found.items()}


def pod_of(workload: JSON) -> JSON:
    spec: JSON = workload["spec"]["template"]["spec"]
    return spec


def container_of(workload: JSON) -> JSON:
    (container,) = pod_of(workload)["containers"]
    found: JSON = container
    return found


@pytest.mark.parametrize("values", [("--values", str(chart.VALUES)), HOME, NEEDED])
def test_every_object_fits_the_types_of_the_api(values: tuple[str, ...]) -> None:
    objects = rendered(*values)

    assert [problem for one in objects for problem in api_types.problems(one)] == []
    assert {one["metadata"]["namespace"] for one in objects if one["kind"] == "Deployment"} == {
        "gpu-ledger"
    }


def test_what_does_not_fit_is_reported() -> None:
    bad = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "label": {}}}

    (problem,) = api_types.problems(bad)
    assert problem == "Service a.metadata.label: Extra inputs are not permitted"
    ports = {**bad, "metadata": {"name": "a"}, "spec": {"ports": [{"name": "b", "port": "80"}]}}
    (problem,) = api_types.problems(ports)
    assert problem == "Service a.spec.ports.0.port: Input should be a valid integer"
    (problem,) = api_types.problems({**bad, "apiVersion": "v3"})
    assert problem == "Service a: the API has none of v3"


def test_the_manifests_have_every_component_and_each_object_once() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in plain()]

    assert set(workloads(plain())) == {*COMPONENTS, "admission"}
    assert len(names) == len(set(names))


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_runs_as_in_the_compose_file(component: str) -> None:
    workload, composed = workloads(plain())[component], service(component)
    container = container_of(workload)

    assert container["command"][: len(composed["command"])] == composed["command"]
    grace = pod_of(workload).get("terminationGracePeriodSeconds", 30)
    assert grace >= int(composed.get("stop_grace_period", "10s").rstrip("s"))
    reads_clusters = any("/run/clusters" in one for one in composed.get("volumes", []))
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert ("/run/clusters" in mounts) is reads_clusters
    if reads_clusters:
        assert mounts["/run/clusters"]["readOnly"] is (component != "renewer")


@pytest.mark.parametrize("values", [("--values", str(chart.VALUES)), HOME])
def test_every_pod_is_restricted_and_bounded(values: tuple[str, ...]) -> None:
    for name, workload in workloads(rendered(*values)).items():
        pod, container = pod_of(workload), container_of(workload)

        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]  # noqa: S108 - The pod's own.


def test_only_the_migration_reads_the_owners_secret() -> None:
    readers = {
        name: [
            one["secretRef"]["name"] for one in container_of(it)["envFrom"] if "secretRef" in one
        ]
        for name, it in workloads(plain()).items()
    }

    assert readers.pop("migrate") == ["gpu-ledger", "gpu-ledger-owner"]
    assert set(map(tuple, readers.values())) == {("gpu-ledger",)}


def test_workers_serve_every_queue_and_their_probe_names_them() -> None:
    served: list[str] = []
    for name in ("worker", "short-worker"):
        container = container_of(workloads(rendered(*NEEDED))[name])
        options = dict(one.lstrip("-").split("=") for one in container["command"][4:])
        served += options["queues"].split(",")
        assert options["hostname"] == f"{name}@%h"
        assert f"{name}@$HOSTNAME" in container["livenessProbe"]["exec"]["command"][2]
        grace = pod_of(workloads(plain())[name])["terminationGracePeriodSeconds"]
        assert grace > app.conf.worker_soft_shutdown_timeout

    assert sorted(served) == sorted(QUEUES)
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    worker = schema["properties"]["workers"]["additionalProperties"]["properties"]
    known, dedicated = worker["queues"]["items"]["anyOf"]
    assert sorted(known["enum"]) == sorted(QUEUES)
    assert re.fullmatch(dedicated["pattern"], "metering.hopper") is not None


def test_a_group_of_workers_serves_one_cluster_alone() -> None:
    group = {
        "settings.DEDICATED_CLUSTERS": "hopper",
        "workers.hopper.queues": "{metering.hopper}",
        "workers.hopper.concurrency": "1",
        "workers.hopper.replicas": "2",
        "workers.hopper.scaling.by": "none",
        "workers.hopper.resources.requests.cpu": "100m",
    }
    options = [part for name, value in group.items() for part in ("--set", f"{name}={value}")]

    documents = rendered(*NEEDED, *options)

    worker = workloads(documents)["hopper"]
    assert worker["spec"]["replicas"] == 2
    assert "--queues=metering.hopper" in container_of(worker)["command"]
    settings = of_kind("ConfigMap", documents)["gpu-ledger"]["data"]
    assert settings["DEDICATED_CLUSTERS"] == "hopper"


def test_probes_ask_the_endpoints_of_health_as_the_proxy_would() -> None:
    container = container_of(workloads(plain())["web"])
    hosts = of_kind("ConfigMap", plain())["gpu-ledger"]["data"]["ALLOWED_HOSTS"].split(",")
    routes = {}
    for name in ("startup", "readiness", "liveness"):
        probe = container[f"{name}Probe"]["httpGet"]
        headers = {one["name"]: one["value"] for one in probe["httpHeaders"]}
        assert headers["Host"] in hosts
        assert headers["X-Forwarded-Proto"] == "https"
        routes[name] = resolve(probe["path"]).url_name

    # A database that is away takes a pod out of the Service, and restarts none.
    assert routes == {"startup": "healthz", "readiness": "readyz", "liveness": "healthz"}


def test_what_has_replicas_has_a_budget_and_what_is_alone_has_none() -> None:
    budgets = of_kind("PodDisruptionBudget", plain())
    alone = {name for name, it in workloads(plain()).items() if it["spec"].get("replicas") == 1}

    assert alone == {"beat", "renewer"}
    assert {name.removeprefix("gpu-ledger-") for name in budgets} == (
        set(workloads(plain())) - alone - {"migrate"}
    )
    for name, budget in budgets.items():
        labels = of_kind("Deployment", plain())[name]["spec"]["template"]["metadata"]["labels"]
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_an_autoscaler_sets_the_replicas_of_the_workers_that_it_scales() -> None:
    (scaled,) = of_kind("ScaledObject", plain()).values()
    (automatic,) = of_kind("HorizontalPodAutoscaler", rendered(*HOME)).values()

    for spec, objects in ((scaled["spec"], plain()), (automatic["spec"], rendered(*HOME))):
        target = of_kind("Deployment", objects)[spec["scaleTargetRef"]["name"]]
        assert target["metadata"]["name"] == "gpu-ledger-worker"
        assert "replicas" not in target["spec"]
    assert workloads(rendered(*NEEDED))["worker"]["spec"]["replicas"] == 2


def test_each_component_reaches_what_it_needs_and_no_more() -> None:
    policies = of_kind("NetworkPolicy", plain())
    ports = yaml_of((CHART / "values.yaml").read_text("utf-8"))["networkPolicy"]["ports"]
    reached = {}
    for name, policy in policies.items():
        (labels,) = policy["spec"]["podSelector"].values()
        workload = workloads(plain())[name.removeprefix("gpu-ledger-")]
        assert labels.items() <= workload["spec"]["template"]["metadata"]["labels"].items()
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        _, *rules = policy["spec"]["egress"]
        numbers = [[one["port"] for one in rule["ports"]] for rule in rules]
        reached[name.removeprefix("gpu-ledger-")] = [
            next(kind for kind in ports if ports[kind] == one) for one in numbers
        ]

    stores = ["database", "broker"]
    assert reached == {
        "migrate": ["database"],
        "beat": ["broker"],
        "renewer": ["database", "clusters"],
        **{name: [*stores, "clusters"] for name in ("web", "watcher", "admission")},
        **{name: [*stores, "clusters", "deliveries"] for name in ("worker", "short-worker")},
    }
    entered = {name for name, one in policies.items() if one["spec"]["ingress"]}
    assert entered == {"gpu-ledger-web", "gpu-ledger-admission"}
    off = rendered(*NEEDED, "--set", "networkPolicy.enabled=false")
    assert not of_kind("NetworkPolicy", off)


def test_the_migration_and_what_it_reads_come_before_everything_else() -> None:
    hooks = {
        (one["kind"], one["metadata"]["name"]): int(
            one["metadata"]["annotations"]["helm.sh/hook-weight"]
        )
        for one in rendered("--values", str(chart.VALUES))
        if "helm.sh/hook" in one["metadata"].get("annotations", {})
    }

    assert hooks.pop(("Job", "gpu-ledger-migrate")) == 0
    assert set(hooks) == {
        ("ConfigMap", "gpu-ledger"),
        ("ExternalSecret", "gpu-ledger"),
        ("ExternalSecret", "gpu-ledger-owner"),
        ("NetworkPolicy", "gpu-ledger-migrate"),
    }
    assert max(hooks.values()) < 0


def test_accounts_of_components_are_allowed_what_each_asks_of_the_api() -> None:
    objects = rendered(*HOME)
    allowed: dict[str, set[str]] = {}
    for binding in of_kind("ClusterRoleBinding", objects).values():
        for subject in binding["subjects"]:
            roles = allowed.setdefault(subject["name"], set())
            roles.add(binding["roleRef"]["name"].removeprefix("gpu-ledger-"))
    accounts = {
        name: pod_of(it).get("serviceAccountName") for name, it in workloads(objects).items()
    }

    assert accounts == {
        "web": "gpu-ledger-web",
        "worker": "gpu-ledger-worker",
        "short-worker": "gpu-ledger-short-worker",
        "watcher": "gpu-ledger-watcher",
        "admission": "gpu-ledger-admission",
        "beat": None,
        "migrate": None,
    }
    assert allowed == {
        # That of services elsewhere, which come with its token.
        "gpu-ledger": {"enforcer", "preemption", "selector"},
        "gpu-ledger-web": {"enforcer", "preemption"},
        "gpu-ledger-worker": {"preemption"},
        "gpu-ledger-short-worker": {"enforcer", "selector"},
        "gpu-ledger-watcher": {"watcher", "enforcer"},
        "gpu-ledger-admission": {"admission"},
    }
    assert set(accounts.values()) - {None} <= set(of_kind("ServiceAccount", objects))
    tokens = {
        n for n, it in workloads(objects).items() if pod_of(it)["automountServiceAccountToken"]
    }
    assert tokens == {"web", "worker", "short-worker", "watcher", "admission"}
    away = workloads(rendered(*NEEDED)).values()
    assert not any(pod_of(it)["automountServiceAccountToken"] for it in away)


def test_secrets_of_other_clusters_are_where_the_service_reads_them() -> None:
    folder = Environment.model_fields["CLUSTER_SECRETS_DIR"].default

    for name in ("web", "worker", "short-worker", "watcher"):
        workload = workloads(rendered(*HOME))[name]
        mounts = {one["name"]: one for one in container_of(workload)["volumeMounts"]}
        volumes = {one["name"]: one for one in pod_of(workload)["volumes"]}
        assert mounts["cluster-hopper"]["mountPath"] == f"{folder}/hopper"
        assert volumes["cluster-hopper"]["secret"]["secretName"] == "hopper-credentials"
    assert "renewer" not in workloads(rendered(*HOME))


def test_only_workers_that_archive_have_the_directory_of_archives() -> None:
    mounted = [
        (name, one["mountPath"], pod_of(it)["volumes"][-1]["persistentVolumeClaim"]["claimName"])
        for name, it in workloads(rendered(*HOME)).items()
        for one in container_of(it)["volumeMounts"]
        if one["name"] == "archives"
    ]

    assert mounted == [("worker", "/srv/archives", "kept")]


def test_rules_and_boards_are_those_of_the_repository() -> None:
    rules = of_kind("PrometheusRule", rendered(*HOME))
    boards = of_kind("ConfigMap", rendered(*HOME))

    for path in (ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"):
        assert rules[f"gpu-ledger-{path.stem}"]["spec"] == yaml_of(path.read_text("utf-8"))
    for path in (ROOT / "deploy" / "grafana").glob("*.json"):
        data = boards[f"gpu-ledger-board-{path.stem}"]["data"]
        assert json.loads(data[path.name]) == json.loads(path.read_text("utf-8"))


def test_the_schema_knows_every_secret_and_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml_of((CHART / "values.yaml").read_text("utf-8"))

    assert schema["properties"]["settings"]["propertyNames"]["not"]["enum"] == list(SECRET_NAMES)
    assert set(schema["properties"]) - set(values) == {"global"}
    assert set(values) <= set(schema["properties"])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((), "Set settings.ALLOWED_HOSTS"),
        (NEEDED[:2], "Set settings.PUBLIC_URL"),
        ((*NEEDED, "--set", "settings.SECRET_KEY=x"), "SECRET_KEY"),
        ((*NEEDED, "--set", "web.replica=3"), "'replica' not allowed"),
        ((*NEEDED, "--set", "web.replicas=0"), "/web/replicas"),
        ((*NEEDED, "--set", "workers.worker.queues={other}"), "/workers/worker/queues"),
        ((*NEEDED, "--set", "archiveClaim=archives"), "Set settings.ARCHIVE_DIR"),
        ((*NEEDED, "--set", "admission.enabled=true"), "Set admission.cluster"),
        ((*NEEDED, "--set", "externalSecrets.enabled=true"), "Set externalSecrets.store.name"),
    ],
)
def test_values_that_cannot_work_are_refused_with_what_to_do(
    values: tuple[str, ...], reason: str
) -> None:
    assert reason in refusal(*values)


def test_in_a_cluster_without_the_service_only_what_is_asked_for_is_made() -> None:
    objects = rendered("--set", "service.enabled=false,cluster.watcher=true")

    assert {one["kind"] for one in objects} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }
