"""A selector that names bound namespaces: what is missing in the applied one is reported."""

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.pod_proofs import PodProofs
from quotas.domain.admission.webhook_configuration import Registration, configurations
from quotas.protocols import EnforcementEndpoint
from quotas.webhook.figures import REGISTRY
from quotas.webhook.selectors import CHECK_EVERY, SelectorCheck
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.shared_rows import shared_rows

HOPPER = EnforcementEndpoint("hopper", "", "")


class AppliedCalls(ClusterCalls):
    """What is applied in a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.applied: list[dict[str, Any]] = []

    def get(
        self, endpoint: EnforcementEndpoint, path: str, *, has_only_metadata: bool = False
    ) -> dict[str, Any]:
        assert (endpoint, has_only_metadata) == (HOPPER, False)
        assert "validatingwebhookconfigurations" in path
        self.reads += 1
        return {"items": [{"metadata": {"name": "other"}, "webhooks": [{}]}, *self.applied]}

    def apply_for(self, bound: tuple[str, ...] | None) -> None:
        self.applied = [configurations(Registration("hopper", "x", service="a/b", bound=bound))[1]]


@shared_rows
def cluster(cast: Cast) -> Cluster:
    made = make_cluster("hopper", admission_mode="enforce")
    bind(made, "llm", cast.llm)
    return made


def test_a_namespace_that_was_bound_later_is_reported_until_it_is_applied(
    cluster: Cluster, cast: Cast
) -> None:
    calls = AppliedCalls()
    check = SelectorCheck(cluster.pk, HOPPER, PodProofs(calls))
    calls.apply_for(("llm",))
    assert check.look(AT) == ()
    bind(cluster, "vision", cast.llm, begin_at=AT + timedelta(days=1))
    assert check.look(AT + CHECK_EVERY / 2) == ()

    with capture_logs() as logs:
        found = [check.look(AT + number * CHECK_EVERY) for number in (1, 2)]

    assert found == [("vision",), ("vision",)]
    assert [(line["event"], line["namespaces"]) for line in logs] == [
        ("admission.selector_outdated", ("vision",))
    ]
    labels = {"cluster": "hopper"}
    name = "gpu_ledger_admission_unselected_namespaces"
    assert REGISTRY.get_sample_value(name, labels) == 1
    calls.apply_for(("llm", "vision"))
    assert check.look(AT + 3 * CHECK_EVERY) == ()
    assert REGISTRY.get_sample_value(name, labels) == 0
    assert calls.reads == 4


@pytest.mark.parametrize(("bound", "missing"), [(None, ()), ((), ("llm",))])
def test_a_configuration_for_all_namespaces_misses_none_and_one_for_none_all(
    cluster: Cluster, bound: tuple[str, ...] | None, missing: tuple[str, ...]
) -> None:
    calls = AppliedCalls()
    calls.apply_for(bound)

    assert SelectorCheck(cluster.pk, HOPPER, PodProofs(calls)).look(AT) == missing


def test_where_nothing_is_applied_nothing_is_missing(cluster: Cluster) -> None:
    assert SelectorCheck(cluster.pk, HOPPER, PodProofs(AppliedCalls())).look(AT) == ()
