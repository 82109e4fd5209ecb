"""Workloads: who a device's series belong to, however its labels clash."""

import pytest

from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.samples import Fact
from metering.adapters.prometheus.workloads import Exporters, read_exporters
from metering.protocols import ClusterTarget

NAMES = names_of(ClusterTarget(slug="hopper"))
OWN = {
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-7hx2p",
    "container": "nvidia-dcgm-exporter",
}
EXPORTERS = Exporters(frozenset({("gpu-operator", "nvidia-dcgm-exporter-7hx2p")}))


def serving(pod: str) -> dict[str, str]:
    return {
        "exported_namespace": "team-nlp",
        "exported_pod": pod,
        "exported_container": "main",
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({**OWN, **serving("a")}, ("team-nlp", "a")),
        (OWN, ("", "")),
        ({"namespace": "team-nlp", "pod": "a", "container": "main"}, ("team-nlp", "a")),
        ({"namespace": "team-nlp", "pod": "a", "container": "exporter"}, ("team-nlp", "a")),
        ({"pod_namespace": "team-nlp", "pod_name": "a", **OWN}, ("team-nlp", "a")),
        ({}, ("", "")),
        ({"namespace": "team-nlp"}, ("", "")),
        ({"pod": "a"}, ("", "")),
    ],
    ids=[
        "honor_labels false, busy",
        "idle, either way",
        "honor_labels true, busy",
        "honor_labels true, a tenant's own exporter",
        "old namespace names",
        "no labels",
        "no pod",
        "no namespace",
    ],
)
def test_who_a_series_belongs_to(labels: dict[str, str], expected: tuple[str, str]) -> None:
    assert EXPORTERS.workload(labels, NAMES) == expected


def test_without_up_of_the_exporter_its_container_tells_it() -> None:
    unknown = Exporters(frozenset())

    assert unknown.workload(OWN, NAMES) == ("", "")
    assert unknown.workload({**OWN, "container": "main"}, NAMES) == (OWN["namespace"], OWN["pod"])


def test_exporters_are_the_targets_that_carry_a_pod() -> None:
    facts = [
        Fact("up", {"namespace": "gpu-operator", "pod": "x"}, "1"),
        Fact("up", {"instance": "y"}, "1"),
        Fact("kube_pod_info", {"namespace": "n", "pod": "p"}, "1"),
    ]

    assert read_exporters(facts).pods == frozenset({("gpu-operator", "x")})
