"""Match conditions of workloads and claims: what is decided on is asked about, and nothing else."""

from copy import deepcopy
from typing import Any

import pytest

from quotas.domain.admission.demands import NETWORK_WORDS
from quotas.domain.admission.match_conditions import claim_expression, template_expression
from quotas.domain.admission.workload_templates import BY_NAME, EACH, KINDS
from tests.support.match_conditions import (
    CONCERNED,
    OFFERED,
    UNCONCERNED,
    PodCase,
    compile_condition,
    container,
    limited,
)

JSON = dict[str, Any]
ASKED = compile_condition(template_expression(OFFERED))
CLAIMED = compile_condition(claim_expression())
PATHS = [(kind, path) for (_, kind), known in KINDS.items() for path in known.paths]
PLAIN, GPU = UNCONCERNED[0].pod(), CONCERNED[0].pod()
GPU_CLASS, NETWORK_CLASS = "gpu.nvidia.com", "rdma.example.com"


def is_asked(obj: JSON, old: JSON | None = None) -> bool:
    operation = "CREATE" if old is None else "UPDATE"
    return ASKED({"object": obj, "oldObject": old, "request": {"operation": operation}})


def workload(kind: str, path: tuple[str, ...], pod: JSON) -> JSON:
    """Return an object with a pod template at a path; in a list it is the second entry."""
    return {"kind": kind, "metadata": {"name": "x"}, **_nested(path, pod)}


def _nested(path: tuple[str, ...], pod: JSON) -> JSON:
    step, below = path[0], path[1:]
    if not below:
        return {step: {key: pod[key] for key in ("metadata", "spec")}}
    if below[0] != EACH:
        return {step: _nested(below, pod)}
    entries = [_nested(below[1:], one) for one in (PLAIN, pod)]
    return {step: dict(zip("ab", entries, strict=True)) if step in BY_NAME else entries}


@pytest.mark.parametrize(("kind", "path"), PATHS)
@pytest.mark.parametrize("case", CONCERNED, ids=lambda case: case.name)
def test_a_template_that_has_to_do_with_gpus_is_asked_about(
    kind: str, path: tuple[str, ...], case: PodCase
) -> None:
    assert is_asked(workload(kind, path, case.pod()))
    assert is_asked(workload(kind, path, case.pod()), workload(kind, path, PLAIN))


@pytest.mark.parametrize(("kind", "path"), PATHS)
@pytest.mark.parametrize("case", UNCONCERNED, ids=lambda case: case.name)
def test_any_other_template_is_asked_nothing(
    kind: str, path: tuple[str, ...], case: PodCase
) -> None:
    obj = workload(kind, path, case.pod())

    assert not is_asked(obj)
    assert not is_asked(obj, workload(kind, path, GPU))


@pytest.mark.parametrize(("kind", "path"), PATHS)
def test_a_change_beside_the_templates_is_asked_nothing(kind: str, path: tuple[str, ...]) -> None:
    old = workload(kind, path, GPU)
    scaled = deepcopy(old)
    scaled["spec"]["replicas"] = 4
    scaled["metadata"]["labels"] = {"tier": "gold"}

    assert is_asked(scaled)
    assert not is_asked(scaled, old)


@pytest.mark.parametrize("field", sorted(BY_NAME))
def test_templates_that_change_their_names_are_asked_about(field: str) -> None:
    kind, path = next((kind, path) for kind, path in PATHS if field in path)
    old = workload(kind, path, GPU)
    swapped = deepcopy(old)
    swapped["spec"][field] = {"b": old["spec"][field]["a"], "a": old["spec"][field]["b"]}

    assert is_asked(swapped, old)
    assert not is_asked(deepcopy(old), old)


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in PATHS}))
def test_an_object_without_a_template_is_asked_nothing(kind: str) -> None:
    empty: tuple[JSON, ...] = ({}, {"spec": {}}, {"spec": {"template": None}}, {"spec": None})

    for fields in empty:
        assert not is_asked({"kind": kind, "metadata": {}, **fields})


def test_fields_that_are_null_are_as_if_they_were_not_there() -> None:
    lists = dict.fromkeys(("initContainers", "ephemeralContainers", "volumes", "resourceClaims"))
    spec = {**lists, "runtimeClassName": None, "containers": [container(env=None, resources=None)]}
    notebook = {"kind": "Notebook", "spec": {"template": {"metadata": None, "spec": spec}}}

    assert not is_asked(notebook)
    spec["containers"] = [limited("main", "nvidia.com/gpu")]
    assert is_asked(notebook)


def claim(*requests: JSON) -> JSON:
    return {"spec": {"devices": {"requests": list(requests)}}}


def shapes(name: str, **more: object) -> list[JSON]:
    """Return a claim of a device class in the shapes of v1 and v1beta2, and of v1beta1."""
    one = {"deviceClassName": name, **more}
    return [
        claim({"name": "r", "exactly": one}),
        claim({"name": "r", **one}),
    ]


def is_claimed(obj: JSON) -> bool:
    return CLAIMED({"object": obj, "oldObject": None, "request": {"operation": "CREATE"}})


@pytest.mark.parametrize("name", [GPU_CLASS, "mig.nvidia.com", "h100", "fpga.example.com"])
def test_a_claim_of_a_device_is_asked_about(name: str) -> None:
    first = {"name": "r", "firstAvailable": [{"deviceClassName": NETWORK_CLASS}]}
    first["firstAvailable"].append({"deviceClassName": name})  # type: ignore[attr-defined]

    assert [is_claimed(one) for one in shapes(name)] == [True, True]
    assert is_claimed(claim(first))
    assert is_claimed(claim(*shapes(NETWORK_CLASS)[0]["spec"]["devices"]["requests"], first))


@pytest.mark.parametrize("word", NETWORK_WORDS)
def test_a_claim_of_a_network_card_is_asked_nothing(word: str) -> None:
    for name in (word, f"{word}.example.com", f"fast-{word}.example.com"):
        assert [is_claimed(one) for one in shapes(name)] == [False, False]
        assert not is_claimed(claim({"name": "r", "firstAvailable": [{"deviceClassName": name}]}))


def test_a_word_inside_of_another_is_no_network_card() -> None:
    assert [is_claimed(one) for one in shapes("magnetic.example.com")] == [True, True]


def test_a_claim_that_only_observes_is_asked_nothing() -> None:
    assert [is_claimed(one) for one in shapes(GPU_CLASS, adminAccess=True)] == [False, False]
    assert [is_claimed(one) for one in shapes(GPU_CLASS, adminAccess=False)] == [True, True]


def test_a_claim_of_nothing_is_asked_nothing() -> None:
    nothing: tuple[JSON, ...] = ({"spec": {}}, {"spec": {"devices": {}}})

    for obj in (*nothing, claim(), claim({"name": "r"})):
        assert not is_claimed(obj)
