"""What an API server says of itself and of our rights; refusals and silence are told apart."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.cluster_inspection import ClusterInspection, ClusterRight
from quotas.protocols import EnforcementEndpoint
from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.access import write_kubeconfig
from tenants.domain.errors import SourceUnavailableError
from tests.support.references import reference_to

RIGHTS = [ClusterRight("list", "pods"), ClusterRight("create", "pods/eviction")]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesAPI]:
    with KubernetesAPI(tmp_path / "api", tokens={"admin-token": "admin"}) as made:
        yield made


@pytest.fixture
def inspection(api: KubernetesAPI, tmp_path: Path) -> ClusterInspection:
    reference = reference_to(api.kubeconfig(tmp_path / "kubeconfig"))
    return ClusterInspection(ClusterCalls(), EnforcementEndpoint("hopper", "", reference))


def reason_of(error: pytest.ExceptionInfo[SourceUnavailableError]) -> str:
    return error.value.reason


def test_a_server_says_its_version_and_its_time(inspection: ClusterInspection) -> None:
    clock = inspection.clock()

    assert inspection.version() == "v1.36.3"
    assert clock is not None
    assert abs(clock - datetime.now(UTC)) < timedelta(seconds=30)


def test_an_administrator_lacks_no_right_and_no_object_is_left(
    inspection: ClusterInspection, api: KubernetesAPI
) -> None:
    before = api.store.version

    assert inspection.denied(RIGHTS) == []
    assert api.store.version == before


@pytest.mark.parametrize(
    ("code", "reason"),
    [(401, "unauthorized"), (403, "forbidden"), (429, "throttled"), (500, "server_error")],
)
def test_a_refused_review_says_why(
    inspection: ClusterInspection, api: KubernetesAPI, code: int, reason: str
) -> None:
    api.fail_next(code, verb="create", resource="selfsubjectaccessreviews")

    with pytest.raises(SourceUnavailableError) as refusal:
        inspection.denied(RIGHTS)

    assert reason_of(refusal) == reason
    assert "The review of list pods was answered with" in str(refusal.value)
    assert inspection.denied(RIGHTS) == []


def test_a_refused_version_says_why(inspection: ClusterInspection, api: KubernetesAPI) -> None:
    for ask in (inspection.version, inspection.clock):
        api.fail_next(503)

        with pytest.raises(SourceUnavailableError) as refusal:
            ask()

        assert reason_of(refusal) == "server_error"


def test_a_server_that_is_away_is_unreachable(api: KubernetesAPI, tmp_path: Path) -> None:
    path = write_kubeconfig(
        tmp_path / "away",
        url="https://127.0.0.1:1",
        authority_pem=api.identity.authority_pem,
        token="admin-token",
    )
    endpoint = EnforcementEndpoint("hopper", "", reference_to(path))
    away = ClusterInspection(ClusterCalls(), endpoint)

    for ask in (away.version, away.clock, away.webhooks):
        with pytest.raises(SourceUnavailableError) as silence:
            ask()
        assert reason_of(silence) == "unreachable"


def test_a_cluster_without_our_webhooks_has_none(inspection: ClusterInspection) -> None:
    assert inspection.webhooks() == ()


def test_a_right_is_named_as_people_say_it() -> None:
    assert [str(right) for right in RIGHTS] == ["list pods", "create pods/eviction"]
