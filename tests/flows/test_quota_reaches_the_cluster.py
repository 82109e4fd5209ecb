"""A lead asks over REST, an administrator grants, and the cluster's ResourceQuota says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from kubernetes import client, config
from rest_framework.test import APIClient

from quotas.tasks import tick
from simulator.kubernetes_api import KubernetesAPI
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.references import reference_to
from tests.support.shared_rows import shared_rows

REQUESTS = "/api/v1/quota-requests/"
GPU, MIG = "requests.nvidia.com/gpu", "requests.nvidia.com/mig-1g.10gb"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    with KubernetesAPI(tmp_path, tokens={"sesame": "gpu-ledger"}) as server:
        yield str(server.kubeconfig(tmp_path / "kubeconfig"))


@pytest.fixture
def cluster_api(kubeconfig: str) -> Iterator[Any]:
    made = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
    api: Any = client.CoreV1Api(made)
    api.create_namespace({"metadata": {"name": "llm"}})
    yield api
    api.api_client.close()


@shared_rows
def cast() -> Cast:
    return make_cast()


def signed_in(user: object) -> APIClient:
    caller = APIClient()
    caller.force_login(user)  # type: ignore[arg-type]
    return caller


@override_settings(
    QUOTA_ENFORCER={
        "BACKEND": "quotas.adapters.kubernetes.KubernetesQuotaEnforcer",
        "OPTIONS": {"read_every_seconds": 0.05},
    }
)
def test_a_granted_request_is_true_in_the_cluster(
    cast: Cast,
    kubeconfig: str,
    cluster_api: Any,  # noqa: ANN401 - Untyped client.
) -> None:
    hopper = make_cluster("hopper", credential_reference=reference_to(kubeconfig))
    bind(hopper, "llm", cast.llm)

    asked = signed_in(cast.bob).post(
        REQUESTS,
        {
            "project": str(cast.llm.pk),
            "size": "large",
            "requested_units": 6,
            "justification": "A bigger model.",
        },
        headers={"Idempotency-Key": "flow-1"},
    )
    granted = signed_in(cast.alice).post(
        f"{REQUESTS}{asked.json()['id']}/approve/", {}, headers={"Idempotency-Key": "flow-2"}
    )
    tick(AT)

    quota = cluster_api.read_namespaced_resource_quota("gpu-ledger", "llm")
    (target,) = signed_in(cast.frank).get("/api/v1/enforcement-targets/").json()["results"]
    assert granted.json()["state"] == "approved"
    assert quota.spec.hard == quota.status.hard == {GPU: "6", MIG: "0"}
    assert quota.metadata.labels == {"app.kubernetes.io/managed-by": "gpu-ledger"}
    assert quota.metadata.annotations == {"gpu-ledger.io/generation": "1"}
    assert {entry.manager for entry in quota.metadata.managed_fields} >= {"gpu-ledger"}
    assert (target["state"], target["live_hard"]) == ("applied", {GPU: 6, MIG: 0})
    assert target["applied_generation"] == 1
