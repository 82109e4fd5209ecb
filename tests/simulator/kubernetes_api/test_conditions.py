"""Match conditions where the server cannot read them, and what a program is given."""

from typing import Any

import pytest

from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.access import Write
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.resources import (
    PODS,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.webhooks import (
    Compile,
    Program,
    WriteReview,
    condition_causes,
    conditions_hold,
)
from tests.support.kubernetes.wire import Wire

PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POD = {"metadata": {"name": "x"}, "spec": {}}


def review(compile_condition: Compile | None = None) -> WriteReview:
    store = ObjectStore()
    store.compile_condition = compile_condition
    return WriteReview(Write(store, PODS, ("team", "x"), "kubectl"), "CREATE", POD, None)


def webhook(*expressions: str, **more: object) -> dict[str, Any]:
    conditions = [{"name": f"c{at}", "expression": one} for at, one in enumerate(expressions)]
    return {
        "name": "a.b.c",
        "clientConfig": {"url": "https://127.0.0.1:9/none"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **({"matchConditions": conditions} if conditions else {}),
        **more,
    }


def test_without_a_compiler_conditions_are_refused_new_and_changed(
    api: KubernetesAPI, wire: Wire
) -> None:
    assert api.store.compile_condition is None
    body = {"metadata": {"name": "conditions"}, "webhooks": [webhook("true", "false")]}

    refused = wire.post(PATH, body)
    assert wire.post(PATH, {**body, "webhooks": [webhook()]}).code == 201
    version = wire.get(f"{PATH}/conditions").body["metadata"]["resourceVersion"]
    changed = wire.patch(f"{PATH}/conditions", {"webhooks": [webhook("true")]})

    assert (refused.code, changed.code) == (422, 422)
    assert "CEL is not simulated" in refused.message
    causes = refused.body["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["webhooks[0].matchConditions"] * 2
    assert wire.get(f"{PATH}/conditions").body["metadata"]["resourceVersion"] == version
    wire.delete(f"{PATH}/conditions")


def test_conditions_that_nobody_can_read_have_no_answer() -> None:
    with pytest.raises(StatusError) as caught:
        conditions_hold(webhook("true"), review())

    assert (caught.value.code, caught.value.body["reason"]) == (403, "Forbidden")
    assert conditions_hold(webhook(), review())
    assert not conditions_hold(webhook("true", failurePolicy="Ignore"), review())


def test_a_program_is_given_the_object_and_the_request() -> None:
    given: list[dict[str, Any]] = []

    def program(variables: dict[str, Any]) -> bool:
        given.append(variables)
        return True

    def compiled(expression: str) -> Program:
        assert expression == "whatever"
        return program

    assert conditions_hold(webhook("whatever"), review(compiled))
    (variables,) = given
    assert variables["object"] == {"kind": "Pod", "apiVersion": "v1", **POD}
    assert variables["oldObject"] is None
    assert variables["request"]["operation"] == "CREATE"
    assert not {"object", "oldObject"} & variables["request"].keys()


def test_what_does_not_compile_is_reported_by_its_place() -> None:
    def compiled(expression: str) -> Program:
        raise ValueError(f"no {expression}")

    configuration = {"webhooks": [webhook(), webhook("one", "two")]}

    causes = list(condition_causes(compiled, configuration))

    assert causes == [
        (
            "FieldValueInvalid",
            f'Invalid value: "{name}": no {name}',
            f"webhooks[1].matchConditions[{at}].expression",
        )
        for at, name in enumerate(("one", "two"))
    ]
