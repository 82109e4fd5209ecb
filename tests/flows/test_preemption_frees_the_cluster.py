"""A limit is lowered, the cluster's quota says so, a plan is shown, executed, and the pods go."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.test import override_settings
from kubernetes import client, config
from rest_framework.test import APIClient

from quotas.adapters.kubernetes_workloads import KubernetesWorkloadEvictor
from quotas.models import PreemptionAction, QuotaLimit, Reservation
from quotas.selectors.preemption import overages_everywhere
from quotas.tasks import preempt, tick
from simulator.kubernetes_api import KubernetesAPI
from tests.contract.kubernetes.conftest import bind as place
from tests.contract.kubernetes.conftest import set_phase, wait_for
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import admit, let_go
from tests.support.references import reference_to
from tests.support.shared_rows import shared_rows

_KEYS = count()
PLANS = "/api/v1/preemption-plans/"
GPU = "requests.nvidia.com/gpu"
APP = {"app": "serving"}
ENFORCER = {
    "BACKEND": "quotas.adapters.kubernetes.KubernetesQuotaEnforcer",
    "OPTIONS": {"read_every_seconds": 0.05},
}
EVICTOR = {
    "BACKEND": f"{KubernetesWorkloadEvictor.__module__}.{KubernetesWorkloadEvictor.__name__}",
    "OPTIONS": {},
}
SPEC = {
    "containers": [
        {
            "name": "main",
            "image": "example.com/none:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
    ],
    "automountServiceAccountToken": False,
    "schedulerName": "nobody",
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    with KubernetesAPI(tmp_path, tokens={"sesame": "gpu-ledger"}) as server:
        yield str(server.kubeconfig(tmp_path / "kubeconfig"))


@pytest.fixture
def core(kubeconfig: str) -> Iterator[Any]:
    made = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
    api: Any = client.CoreV1Api(made)
    api.create_namespace({"metadata": {"name": "llm"}})
    yield api
    made.close()


@shared_rows
def cast() -> Cast:
    return make_cast()


def signed_in(user: object) -> APIClient:
    caller = APIClient()
    caller.force_login(user)  # type: ignore[arg-type]
    return caller


def post(caller: APIClient, path: str, body: object = None) -> Any:  # noqa: ANN401 - An answer.
    key = f"flow-{next(_KEYS)}"
    return caller.post(path, body or {}, format="json", headers={"Idempotency-Key": key})


def run_pod(core: Any, name: str) -> str:  # noqa: ANN401 - Untyped client.
    """Let a pod run on a node nobody runs; return its uid."""
    body = {"metadata": {"name": name, "labels": APP}, "spec": SPEC}
    uid: str = core.create_namespaced_pod("llm", body).metadata.uid
    place(core, "llm", name)
    set_phase(core, "llm", name, "Running", is_ready=True)
    return uid


def pods_left(core: Any) -> list[str]:  # noqa: ANN401 - Untyped client.
    return sorted(
        one.metadata.name
        for one in core.list_namespaced_pod("llm").items
        if one.metadata.deletion_timestamp is None
    )


def make_budget(core: Any, least: int) -> None:  # noqa: ANN401 - Untyped client.
    policy: Any = client.PolicyV1Api(core.api_client)
    spec = {"minAvailable": least, "selector": {"matchLabels": APP}}
    policy.create_namespaced_pod_disruption_budget(
        "llm", {"metadata": {"name": "serving"}, "spec": spec}
    )

    def is_counted() -> bool:
        found = policy.read_namespaced_pod_disruption_budget("serving", "llm").status
        return bool(found and found.current_healthy)

    wait_for(is_counted)


def see_gone(core: Any) -> None:  # noqa: ANN401 - Untyped client.
    """Let the ledger see which pods are gone, as the watch and its sweep tell it."""
    left = set(pods_left(core))
    for pod in Reservation.objects.filter(state="held"):
        if pod.pod_name not in left and not pod.controller:
            let_go(pod)


@override_settings(QUOTA_ENFORCER=ENFORCER, WORKLOAD_EVICTOR=EVICTOR)
def test_a_lowered_limit_becomes_true_gently(
    cast: Cast,
    kubeconfig: str,
    core: Any,  # noqa: ANN401 - Untyped client.
) -> None:
    hopper = make_cluster("hopper", credential_reference=reference_to(kubeconfig))
    bind(hopper, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=3)
    tick(AT)
    for age, name in enumerate(("new", "mid", "old")):
        admit(hopper, cast.llm, name, uid=run_pod(core, name), age_minutes=1 + age)
    make_budget(core, 3)
    frank = signed_in(cast.frank)

    with time_machine.travel(AT, tick=False):
        QuotaLimit.objects.update(limit_units=1)
        made = post(frank, PLANS, {"organization": str(cast.acme.pk)}).json()
        path = f"{PLANS}{made['id']}/"
        early = post(frank, f"{path}execute/")
        tick(AT)
        quota = core.read_namespaced_resource_quota("gpu-ledger", "llm")
        executed = post(frank, f"{path}execute/").json()

    # The lowered quota comes first: what goes could only come back otherwise.
    assert (early.status_code, early.json()["code"]) == (409, "quota_not_applied")
    assert quota.status.hard[GPU] == "1"
    assert [one["pod_name"] for one in made["victims"]] == ["new", "mid"]
    assert executed["state"] == "running"
    assert pods_left(core) == ["mid", "new", "old"]

    # Its budget keeps every pod; nothing goes until that yields.
    preempt(AT + timedelta(minutes=5))
    assert PreemptionAction.objects.get(pod_name="new").outcome == "blocked"
    assert pods_left(core) == ["mid", "new", "old"]
    client.PolicyV1Api(core.api_client).delete_namespaced_pod_disruption_budget("serving", "llm")

    for minute in range(6, 12):
        preempt(AT + timedelta(minutes=minute))
        see_gone(core)

    done = signed_in(cast.alice).get(path).json()
    assert pods_left(core) == ["old"]
    assert (done["state"], [one["state"] for one in done["victims"]]) == ("done", ["freed"] * 2)
    assert overages_everywhere(at=AT) == {}
