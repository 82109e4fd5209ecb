"""The generated match conditions, evaluated: no pod that matters passes by, none makes an error."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.names import OTHER_DEVICES
from quotas.domain.admission.hidden_gpus import CONTAINER_LISTS
from quotas.domain.admission.match_conditions import (
    claim_expression,
    gpu_expression,
    template_expression,
)
from quotas.domain.admission.pods import is_gpu
from quotas.domain.admission.webhook_configuration import Registration, configurations
from tests.support.match_conditions import (
    CONCERNED,
    IMAGE,
    OFFERED,
    UNCONCERNED,
    VISIBLE,
    PodCase,
    compile_condition,
    container,
    limited,
)

JSON = dict[str, Any]
ASKED = compile_condition(gpu_expression(OFFERED))
RESOURCES = (
    "cpu",
    "nvidia.com/gpu",
    "example.com/gpu",
    "example.com/fpga",
    "nvidia.com/mig-1g.10gb",
)


def is_asked(obj: JSON, old: JSON | None = None) -> bool:
    return ASKED({"object": obj, "oldObject": old, "request": {"operation": "CREATE"}})


@pytest.mark.parametrize("case", CONCERNED, ids=lambda case: case.name)
def test_a_pod_that_has_to_do_with_gpus_is_asked_about(case: PodCase) -> None:
    assert is_asked(case.pod())
    assert is_asked(case.pod(), case.pod())


@pytest.mark.parametrize("case", UNCONCERNED, ids=lambda case: case.name)
def test_any_other_pod_is_asked_nothing(case: PodCase) -> None:
    assert not is_asked(case.pod())
    assert not is_asked(case.pod(), case.pod())


@pytest.mark.parametrize("part", ["limits", "requests"])
@pytest.mark.parametrize("place", CONTAINER_LISTS)
def test_every_list_of_containers_is_looked_at(place: str, part: str) -> None:
    asks = {"name": "x", "image": IMAGE, "resources": {part: {"nvidia.com/gpu": "1"}}}
    shows = {"name": "x", "image": IMAGE, "env": VISIBLE}

    for one, expected in ((asks, True), (shows, True), (container("x"), False)):
        assert is_asked(PodCase("", {place: [container(), one]}).pod()) is expected


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "habana.ai/gaudi", "cpu"])
def test_what_a_runtime_class_adds_is_looked_at(resource: str) -> None:
    pod = PodCase("", {"runtimeClassName": "kata", "overhead": {resource: "1"}}).pod()

    assert is_asked(pod) is (resource != "cpu")


@pytest.mark.parametrize("name", OTHER_DEVICES)
def test_every_name_that_is_metered_is_asked_about(name: str) -> None:
    assert is_asked(PodCase("", {"containers": [limited("main", f"{name}x")]}).pod())
    assert is_gpu(f"{name}x")


def test_what_is_not_offered_is_not_asked_about() -> None:
    without = compile_condition(gpu_expression())
    pod = PodCase("", {"containers": [limited("main", "example.com/gpu")]}).pod()

    assert is_asked(pod)
    assert not without({"object": pod, "oldObject": None, "request": {}})


def test_what_is_asked_openly_is_looked_at_before_whatever_may_be_long() -> None:
    """An API server ends an expression that costs too much, and may then ask nobody."""
    parts = gpu_expression(OFFERED).split(" || ((has(object.")

    looked = ["c.resources" in part for part in parts if "exists(c," in part]
    assert looked == [True, True, True, False, False, False]


@pytest.mark.parametrize("name", ["it's", "back\\slash", 'quo"te'])
def test_an_odd_name_is_quoted(name: str) -> None:
    odd = compile_condition(gpu_expression((name,)))
    pod = PodCase("", {"containers": [limited("main", name)]}).pod()

    assert odd({"object": pod, "oldObject": None, "request": {}})


def test_every_condition_that_is_printed_is_one_a_server_takes() -> None:
    fields: JSON = {"cluster": "hopper", "authority_pem": "x", "url": "https://gpu.test"}
    printed = [
        condition["expression"]
        for configuration in configurations(Registration(**fields, offered=OFFERED))
        for webhook in configuration["webhooks"]
        for condition in webhook.get("matchConditions", [])
    ]

    pods, templates, claims = (
        gpu_expression(OFFERED),
        template_expression(OFFERED),
        claim_expression(),
    )
    assert printed == [pods, templates, pods, claims, templates]
    assert all(callable(compile_condition(one)) for one in printed)


amounts = st.dictionaries(st.sampled_from(RESOURCES), st.just("1"), max_size=2)
resources = st.fixed_dictionaries({}, optional={"limits": amounts, "requests": amounts})
variables = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["A", "NVIDIA_VISIBLE_DEVICES"])},
        optional={"value": st.just("all"), "valueFrom": st.just({"fieldRef": {}})},
    ),
    max_size=2,
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("c")}, optional={"resources": resources, "env": variables}
    ),
    max_size=2,
)
volumes = st.lists(
    st.sampled_from([{"name": "v", "emptyDir": {}}, {"name": "v", "hostPath": {"path": "/srv"}}]),
    max_size=2,
)
specs = st.fixed_dictionaries(
    {"containers": containers},
    optional={
        "initContainers": containers,
        "ephemeralContainers": containers,
        "volumes": volumes,
        "runtimeClassName": st.sampled_from(["runc", "nvidia"]),
        "resourceClaims": st.just([{"name": "x"}]),
    },
)
annotations = st.dictionaries(st.sampled_from(["a", "cdi.k8s.io/x"]), st.just("x"), max_size=2)
metadata = st.fixed_dictionaries({"name": st.just("x")}, optional={"annotations": annotations})


def concerns(spec: JSON, annotated: JSON) -> bool:
    """Say in Python what the expression says in CEL."""
    every = [one for place in CONTAINER_LISTS for one in spec.get(place, [])]
    names = {
        name for one in every for amount in one.get("resources", {}).values() for name in amount
    }
    shown = {entry["name"] for one in every for entry in one.get("env", [])}
    return (
        any(name.startswith("nvidia.com/") or name in OFFERED for name in names)
        or "NVIDIA_VISIBLE_DEVICES" in shown
        or "resourceClaims" in spec
        or spec.get("runtimeClassName") == "nvidia"
        or "cdi.k8s.io/x" in annotated
    )


@given(spec=specs, metadata=metadata)
def test_whatever_a_pod_leaves_out_there_is_an_answer_and_the_right_one(
    spec: JSON, metadata: JSON
) -> None:
    """An expression without an answer would refuse every such pod of the cluster."""
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    assert is_asked(obj) is concerns(spec, metadata.get("annotations", {}))
