"""A cluster that enforces, a project on it, and the endpoints without a server in front."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import resolve

from metering.models import NodeRecord
from quotas.webhook import answers
from tenants.models import Cluster, Organization, Project
from tests.support.builders import (
    AT,
    bind,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)
from tests.support.quotas.reviews import body

JSON = dict[str, Any]
URLS = "config.admission_urls"
WHOLE = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}


@dataclass(frozen=True)
class Answer:
    """What a endpoint answered."""

    status: int
    body: JSON

    @property
    def is_allowed(self) -> bool:
        allowed: bool = self.body["response"]["allowed"]
        return allowed

    @property
    def message(self) -> str:
        return str(self.body["response"]["status"]["message"])

    @property
    def code(self) -> int:
        return int(self.body["response"]["status"]["code"])

    @property
    def reason(self) -> str:
        return str(self.body["response"]["auditAnnotations"]["decision"])

    @property
    def warnings(self) -> list[str]:
        return list(self.body["response"].get("warnings", []))


class Webhooks:
    """Asks the endpoints of a cluster."""

    def __init__(self, cluster: str = "hopper") -> None:
        self.cluster = cluster
        self._factory = RequestFactory()

    def admit(self, obj: JSON | None, **changes: Any) -> Answer:  # noqa: ANN401 - A review's fields.
        return self.send(f"/admit/{self.cluster}/pods", body(obj, **changes))

    def stamp(self, obj: JSON | None, **changes: Any) -> Answer:  # noqa: ANN401 - As above.
        return self.send(f"/stamp/{self.cluster}", body(obj, **changes))

    def warn(self, obj: JSON | None, **changes: Any) -> Answer:  # noqa: ANN401 - As above.
        return self.send(f"/warn/{self.cluster}", body(obj, **changes))

    def send(self, path: str, sent: bytes) -> Answer:
        request = self._factory.post(path, data=sent, content_type="application/json")
        return self.ask(path, request)

    def get(self, path: str) -> Answer:
        return self.ask(path, self._factory.get(path))

    def ask(self, path: str, request: Any) -> Answer:  # noqa: ANN401 - Django's own.
        match = resolve(path, urlconf=URLS)
        response: HttpResponse = match.func(request, *match.args, **match.kwargs)
        text = response.content.decode()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return Answer(response.status_code, json.loads(text) if is_json else {"text": text})


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """Begin and end with a process that has just begun."""
    answers.FACTS.purge()
    answers.guard.cache_clear()
    yield
    answers.guard().stop()
    answers.guard.cache_clear()
    answers.FACTS.purge()


@pytest.fixture
def webhooks() -> Webhooks:
    return Webhooks()


@pytest.fixture
def hopper() -> Cluster:
    """Return a cluster that enforces, with eight whole H100s on one node."""
    cluster = make_cluster(
        is_watched=True, admission_mode="enforce", kubernetes_user_prefix="", offered_resources=[]
    )
    make_node(cluster)
    return cluster


@pytest.fixture
def acme() -> Organization:
    return make_organization()


@pytest.fixture
def llm(acme: Organization, hopper: Cluster) -> Project:
    """Return the project of the namespace team-llm, whose default owner is lina."""
    project = make_project(acme)
    bind(hopper, "team-llm", project, default_owner=make_user("lina"))
    return project


def make_node(cluster: Cluster, name: str = "n1", **fields: Any) -> NodeRecord:  # noqa: ANN401 - Columns.
    """Return a node that offers whole H100s unless set otherwise."""
    values: JSON = {"labels": WHOLE, "allocatable": {"nvidia.com/gpu": 8}, **fields}
    return NodeRecord.objects.create(
        cluster=cluster, node=name, node_uid=f"uid-{name}", begin_at=AT, **values
    )
