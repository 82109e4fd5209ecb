"""Quota's whole way in a cluster that runs pods: asked, granted, true, held, lowered, taken back.

The sandbox of the demo is the cluster: its API asks our webhooks about every pod, our watch reads
what became of them, and the enforcer writes the namespaces' quotas.
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import override_settings
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from rest_framework.test import APIClient

from quotas.domain.admission.webhook_configuration import Registration, configurations
from quotas.models import QuotaCounter
from quotas.tasks import look_after_live_use, preempt, tick
from quotas.webhook import answers
from simulator.demo.seeding import Endpoints
from simulator.kubernetes_api import KubernetesAPI
from simulator.sandbox.api import kubeconfig_path, serve_sandbox
from simulator.sandbox.plan import LEAD, ORGANIZATION_ADMIN, SANDBOX, TAILSPIN
from simulator.sandbox.seeding import seed_sandbox
from tenants.domain.identity.roles import Role
from tenants.models import Organization, Project
from tests.support.builders import grant, make_user
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.webhook_view import WebhookView
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to

GPU = "requests.nvidia.com/gpu"
WAIT_SECONDS = 20
REAL = {
    "CLUSTER_WATCH": {
        "BACKEND": "metering.adapters.kubernetes.KubernetesClusterWatch",
        "OPTIONS": {},
    },
    "QUOTA_ENFORCER": {
        "BACKEND": "quotas.adapters.kubernetes.KubernetesQuotaEnforcer",
        "OPTIONS": {"read_every_seconds": 0.05},
    },
    "WORKLOAD_EVICTOR": {
        "BACKEND": "quotas.adapters.kubernetes_workloads.KubernetesWorkloadEvictor",
        "OPTIONS": {},
    },
    "PREEMPTION_GRACE_SECONDS": 0,
}
_KEYS = count()


class Site:
    """The service and the sandbox it looks after, each asked as people and workers ask them."""

    def __init__(self, folder: Path, api: KubernetesAPI) -> None:
        self.api = api
        reference = reference_to(kubeconfig_path(folder))
        seed_sandbox(
            Endpoints("", api.url, reference), password="unused password", at=datetime.now(UTC)
        )
        grant(make_user("frank"), Role.PLATFORM_ADMIN)
        self.project = Project.objects.get(organization__slug=TAILSPIN.slug, slug="arm")
        self.organization = Organization.objects.get(slug=TAILSPIN.slug)
        made = config.new_client_from_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig_path(folder, LEAD))
        )
        self.core: Any = client.CoreV1Api(made)
        self._endpoints: list[WebhookServer] = []
        self._register(folder)

    def _register(self, folder: Path) -> None:
        """Let the API ask our endpoints, as the generated configurations say."""
        wire = Wire(self.core.api_client.configuration)
        for document in configurations(
            Registration(SANDBOX, "", url="https://127.0.0.1", has_conditions=False)
        ):
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["url"].removeprefix("https://127.0.0.1")
                client_for = WebhookServer(folder / webhook["name"], "127.0.0.1")
                client_for.rule = WebhookView(path)
                webhook["clientConfig"] = {"url": client_for.url, "caBundle": client_for.authority}
                self._endpoints.append(client_for)
            plural = f"{document['kind'].lower()}s"
            made = wire.post(f"/apis/{document['apiVersion']}/{plural}", document)
            assert made.code == 201, made.message

    def close(self) -> None:
        for client_for in self._endpoints:
            client_for.stop()
        self.core.api_client.close()

    def ask(self, username: str, method: str, path: str, body: Any = None) -> Any:  # noqa: ANN401
        """Return what the REST API answers a person; changes name the version they saw."""
        caller = APIClient()
        caller.force_login(User.objects.get(username=username))
        headers = {"Idempotency-Key": f"flow-{next(_KEYS)}"}
        if method == "patch":
            headers["If-Match"] = caller.get(f"/api/v1/{path}")["ETag"]
        answer = getattr(caller, method)(f"/api/v1/{path}", body, format="json", headers=headers)
        assert answer.status_code < 300, answer.content
        return answer.json()

    def ask_for(self, units: int) -> Any:  # noqa: ANN401 - JSON.
        """Ask as the lead, approve as the organization's administrator."""
        wanted = {
            "project": str(self.project.pk),
            "size": "large",
            "requested_units": units,
            "justification": "A new arm.",
        }
        asked = self.ask(LEAD, "post", "quota-requests/", wanted)
        return self.ask(ORGANIZATION_ADMIN, "post", f"quota-requests/{asked['id']}/approve/", {})

    def lower_to(self, units: int) -> None:
        found = self.ask(LEAD, "get", f"quota-limits/?project={self.project.pk}&size=large")
        (limit,) = found["results"]
        path = f"quota-limits/{limit['id']}/"
        self.ask(ORGANIZATION_ADMIN, "patch", path, {"limit_units": units})

    def work(self) -> None:
        """Do once what the watch and the workers do all the time."""
        call_command("watch_cluster", SANDBOX, "--once")
        look_after_live_use(datetime.now(UTC))
        tick(datetime.now(UTC))

    def goes_on_with(self, plan_id: str) -> str:
        """Let everybody work in its next cycle, and return how far a preemption has come."""
        self.work()
        preempt(datetime.now(UTC) + timedelta(minutes=2))
        return str(self.ask("frank", "get", f"preemption-plans/{plan_id}/")["state"])

    def run_pod(self, name: str, gpus: int) -> str:
        """Return "" when the pod was made, or the refusal."""
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
        container = {"name": "main", "image": "trainer:1", "resources": resources}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        try:
            self.core.create_namespaced_pod("arm", body)
        except ApiException as error:
            return str(json.loads(error.body)["message"])  # type: ignore[arg-type] # Answers have one.
        return ""

    def pods(self) -> list[str]:
        found = self.core.list_namespaced_pod("arm").items
        return sorted(pod.metadata.name for pod in found)

    def are_all_bound(self) -> bool:
        return all(pod.spec.node_name for pod in self.core.list_namespaced_pod("arm").items)

    def wait_until_next_is_younger(self) -> None:
        """Wait for the next second: of when a pod was bound, Kubernetes says no more."""
        wait(self.are_all_bound)
        bound_at = datetime.now(UTC).replace(microsecond=0)
        wait(lambda: datetime.now(UTC) > bound_at + timedelta(seconds=1))

    def quota_cap(self) -> str:
        return str(self.core.read_namespaced_resource_quota("gpu-ledger", "arm").status.hard[GPU])

    def counted(self) -> tuple[int, int]:
        """Return what the project holds, and what was let in and is not bound yet."""
        counter = QuotaCounter.objects.get(limit__project=self.project, limit__size="large")
        return counter.held_units, counter.reserved_units


@pytest.fixture
def site(committed_db: str, tmp_path: Path) -> Iterator[Site]:
    assert committed_db
    answers.FACTS.purge()
    answers.guard.cache_clear()
    with (
        override_settings(**REAL),
        serve_sandbox(tmp_path, port=0, at=datetime.now(UTC)) as api,
    ):
        made = Site(tmp_path, api)
        yield made
        made.close()
    answers.guard().stop()
    answers.guard.cache_clear()
    answers.FACTS.purge()


def wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "It did not come about."
        time.sleep(0.05)


@pytest.mark.soak
def test_quota_is_asked_granted_held_lowered_and_taken_back(site: Site) -> None:
    site.work()
    assert site.quota_cap() == "2"
    assert "limit 2, used 0, reserved 0" in site.run_pod("early", 4)

    granted = site.ask_for(6)
    site.work()
    assert (granted["state"], site.quota_cap()) == ("approved", "6")

    assert site.run_pod("first", 4) == ""
    site.wait_until_next_is_younger()
    assert site.run_pod("second", 2) == ""
    refused = site.run_pod("third", 1)
    assert "Project arm of tailspin requests 1 Large, limit 6, used 0, reserved 6" in refused
    assert site.pods() == ["first", "second"]
    wait(site.are_all_bound)
    site.work()
    assert site.counted() == (6, 0)

    site.lower_to(4)
    site.work()
    assert site.quota_cap() == "4"
    assert site.pods() == ["first", "second"]

    organization = {"organization": str(site.organization.pk)}
    plan = site.ask(ORGANIZATION_ADMIN, "post", "preemption-plans/", organization)
    assert [one["pod_name"] for one in plan["victims"]] == ["second"]
    assert site.pods() == ["first", "second"]

    site.ask("frank", "post", f"preemption-plans/{plan['id']}/execute/", {})
    preempt(datetime.now(UTC))
    wait(lambda: site.pods() == ["first"])
    wait(lambda: site.goes_on_with(plan["id"]) == "done")
    assert site.counted() == (4, 0)
    assert "limit 4, used 4, reserved 0" in site.run_pod("again", 1)
