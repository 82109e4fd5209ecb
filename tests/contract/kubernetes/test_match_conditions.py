"""Conditions of webhooks in CEL, and whom the configuration we print asks about."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from quotas.domain.admission.webhook_configuration import Registration, configurations
from tests.contract.kubernetes.conftest import GPU, LABELS, STRATEGIC, new_name, pod_body, wait_for
from tests.support.kubernetes.registering import GROUP, MUTATING, OWN, Hooks, hooked
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.webhook_server import WebhookServer, patching
from tests.support.kubernetes.wire import Wire
from tests.support.match_conditions import CONCERNED, OFFERED, UNCONCERNED, VISIBLE, PodCase

pytestmark = [pytest.mark.needs(WEBHOOKS), pytest.mark.needs("1.28")]
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NO_KEY = "object.spec.nothing == 'x'"
BOTH = 2
"""Our stamp and our endpoint."""


@pytest.fixture
def hooks(
    wire: Wire, namespace: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    with hooked(wire, namespace, server, tmp_path_factory) as made:
        yield made


@pytest.fixture
def runtime_class(wire: Wire) -> Iterator[str]:
    """Make a class of NVIDIA's runtime, where a server looks whether there is one."""
    name = f"nvidia-{new_name()}"
    wire.post(CLASSES, {"metadata": {"name": name, "labels": LABELS}, "handler": "runc"})
    yield name
    wire.delete(f"{CLASSES}/{name}")


def install(hooks: Hooks, **fields: Any) -> None:  # noqa: ANN401 - A registration's fields.
    """Register what is printed for a cluster, for the namespace of the test alone."""
    registration = Registration(
        cluster="contract",
        authority_pem=base64.b64decode(hooks.server.authority).decode(),
        url=hooks.server.url.removesuffix("/review"),
        offered=OFFERED,
        **fields,
    )
    for configuration in configurations(registration):
        name = new_name()
        configuration["metadata"] = {"name": name, "labels": LABELS}
        for webhook in configuration["webhooks"]:
            webhook["namespaceSelector"]["matchLabels"] = {OWN: hooks.namespace}
        path = f"{GROUP}/{configuration['kind'].lower()}s"
        made = hooks.wire.post(path, configuration)
        assert made.code == 201, made.message
        hooks.made.append(f"{path}/{name}")


def wait_until_asked(hooks: Hooks) -> None:
    def is_asked() -> bool:
        hooks.server.seen.clear()
        asked = hooks.wire.post(hooks.pods, pod_body("probe", gpus=1), dryRun="All")
        return asked.code == 201 and len(hooks.server.seen) == BOTH

    wait_for(is_asked)
    hooks.server.seen.clear()


def body_of(case: PodCase, runtime_class: str) -> dict[str, Any]:
    """Return a pod of the table as somebody would send it to this server."""
    body = case.pod()
    body["metadata"]["name"] = "case"
    body["spec"] = {**pod_body("case")["spec"], **body["spec"]}
    if "runtimeClassName" in body["spec"]:
        body["spec"]["runtimeClassName"] = runtime_class
    return body


def test_what_is_printed_asks_about_pods_with_gpus_and_about_no_others(
    hooks: Hooks, server: Server, runtime_class: str
) -> None:
    install(hooks)
    wait_until_asked(hooks)
    cases = [one for one in (*UNCONCERNED, *CONCERNED) if server.has(one.needs)]

    found = {}
    for case in cases:
        made = hooks.wire.post(hooks.pods, body_of(case, runtime_class), dryRun="All")
        found[case.name] = (made.code, len(hooks.server.seen))
        hooks.server.seen.clear()

    asked = {one.name: (201, BOTH) for one in cases if one in CONCERNED}
    assert found == {one.name: (201, 0) for one in cases} | asked


def test_a_change_of_a_pod_is_asked_about_when_it_has_gpus(hooks: Hooks) -> None:
    install(hooks)
    wait_until_asked(hooks)
    for name, gpus in (("plain", 0), ("trainer", 1)):
        assert hooks.wire.post(hooks.pods, pod_body(name, gpus=gpus)).code == 201
    hooks.server.seen.clear()

    for name in ("plain", "trainer"):
        changed = {"metadata": {"labels": {"tier": "gold"}}}
        assert hooks.wire.patch(f"{hooks.pods}/{name}", changed).code == 200

    assert {(one["name"], one["operation"]) for one in hooks.server.seen} == {("trainer", "UPDATE")}


@pytest.mark.needs("pods/ephemeralcontainers")
def test_a_container_for_a_moment_is_asked_about_when_it_shows_devices(hooks: Hooks) -> None:
    install(hooks)
    wait_until_asked(hooks)
    assert hooks.wire.post(hooks.pods, pod_body("plain")).code == 201
    path = f"{hooks.pods}/plain/ephemeralcontainers"

    def add(name: str, **fields: object) -> int:
        one = {"name": name, "image": "example.com/none:1", **fields}
        changes = {"metadata": {"labels": {"a": "b"}}, "spec": {"ephemeralContainers": [one]}}
        return hooks.wire.patch(path, changes, STRATEGIC).code

    assert add("shell") == 200
    unseen = list(hooks.server.seen)
    assert add("nvidia-smi", env=VISIBLE) == 200

    assert unseen == []
    (request,) = hooks.server.seen
    assert (request["operation"], request["subResource"]) == ("UPDATE", "ephemeralcontainers")
    stored = hooks.wire.get(f"{hooks.pods}/plain").body
    added = {one["name"] for one in stored["spec"]["ephemeralContainers"]}
    assert (added, "labels" in stored["metadata"]) == ({"shell", "nvidia-smi"}, False)


def test_own_namespaces_are_not_asked_about(hooks: Hooks) -> None:
    install(hooks)
    wait_until_asked(hooks)
    hooks.remove()
    hooks.made.clear()
    install(hooks, own_namespaces=(hooks.namespace,))

    def is_silent() -> bool:
        hooks.server.seen.clear()
        asked = hooks.wire.post(hooks.pods, pod_body("probe", gpus=1), dryRun="All")
        return asked.code == 201 and not hooks.server.seen

    wait_for(is_silent)
    assert hooks.wire.post(hooks.pods, pod_body("own", gpus=1)).code == 201
    assert hooks.server.seen == []


def test_a_gpu_that_another_webhook_adds_later_is_seen_at_the_endpoint_alone(
    hooks: Hooks, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Who was asked nothing at first is not asked again: such a pod is counted, and not stamped."""
    install(hooks)
    wait_until_asked(hooks)
    answering = WebhookServer(tmp_path_factory.mktemp("later"), server.webhook_host)
    path = "/spec/containers/0/resources"
    answering.rule = patching({"op": "add", "path": path, "value": {"limits": {GPU: "1"}}})
    later = Hooks(hooks.wire, hooks.namespace, answering)
    # Configurations are asked in the order of their names.
    later.start(MUTATING, "zz-")
    hooks.server.seen.clear()

    made = hooks.wire.post(hooks.pods, pod_body("plain"))

    later.remove()
    answering.stop()
    assert made.body["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}
    (request,) = hooks.server.seen
    assert request["object"]["metadata"]["uid"] == made.body["metadata"]["uid"]


def conditions(*expressions: str) -> list[dict[str, str]]:
    return [{"name": f"c{at}", "expression": one} for at, one in enumerate(expressions)]


@pytest.mark.parametrize(
    ("policy", "expressions", "code"),
    [
        ("Fail", (NO_KEY,), 403),
        ("Ignore", (NO_KEY,), 201),
        ("Fail", (NO_KEY, "false"), 201),
        ("Fail", ("true", "object.metadata.name == 'other'"), 201),
    ],
    ids=["must not fail", "may fail", "one is false", "one is not true"],
)
def test_a_condition_without_an_answer_is_up_to_the_failure_policy(
    hooks: Hooks, policy: str, expressions: tuple[str, ...], code: int
) -> None:
    """Every condition lets a probe through, so it is known from when they are in force."""
    probe = "object.metadata.name == 'probe'"
    either = [f"{probe} || ({one})" for one in expressions]
    hooks.start(failurePolicy=policy, matchConditions=conditions(*either))

    answered = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert answered.code == code
    assert hooks.server.seen == []
    if code == 403:
        assert answered.message.startswith('pods "trainer" is forbidden: expression ')
        assert "resulted in error: " in answered.message


def test_a_condition_that_holds_asks(hooks: Hooks) -> None:
    hooks.start(matchConditions=conditions("request.operation == 'CREATE'", "oldObject == null"))

    assert hooks.wire.post(hooks.pods, pod_body("trainer")).code == 201
    assert [one["name"] for one in hooks.server.seen] == ["trainer"]


@pytest.mark.parametrize(
    ("expression", "reported"),
    [
        ("object.spec.foo(", "compilation failed: "),
        ("nothing.spec == 1", "compilation failed: "),
        ("1", "must evaluate to bool but got int"),
        ("object.spec.hostNetwork", "must evaluate to bool but got dyn"),
    ],
)
def test_what_is_no_condition_is_not_registered(
    hooks: Hooks, expression: str, reported: str
) -> None:
    refused = hooks.register(hooks.webhook(matchConditions=conditions(expression)))

    assert refused.code == 422
    (cause,) = refused.body["details"]["causes"]
    assert cause["field"] == "webhooks[0].matchConditions[0].expression"
    assert cause["message"].startswith(f'Invalid value: "{expression}": {reported}')
