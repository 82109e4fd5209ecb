"""Mutating webhooks: who writes an owner into a pod or a Job, and in which order."""

from collections.abc import Iterator

import pytest

from tests.contract.kubernetes.conftest import pod_body, wait_for
from tests.support.kubernetes.registering import MUTATING, POD_RULE, Hooks, hooked
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.webhook_server import Body, deny, patching
from tests.support.kubernetes.wire import Wire

pytestmark = pytest.mark.needs(WEBHOOKS)
OWNER = "gpu-ledger.io/owner"
STAMP = {"op": "add", "path": "/metadata/annotations", "value": {OWNER: "alice"}}


@pytest.fixture
def hooks(
    wire: Wire, namespace: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    with hooked(wire, namespace, server, tmp_path_factory) as made:
        yield made


@pytest.fixture
def second(
    hooks: Hooks, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    with hooked(hooks.wire, hooks.namespace, server, tmp_path_factory) as made:
        yield made


def job_body(name: str) -> Body:
    template = {"metadata": {}, "spec": {**pod_body(name)["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": 0, "template": template},
    }


def test_its_patch_is_stored(hooks: Hooks) -> None:
    hooks.start(MUTATING)
    hooks.server.rule = patching(STAMP)

    made = hooks.wire.post(hooks.pods, pod_body("trainer"))

    stored = hooks.wire.get(f"{hooks.pods}/trainer").body
    assert made.body["metadata"]["annotations"] == {OWNER: "alice"}
    assert stored["metadata"]["annotations"] == {OWNER: "alice"}


def test_it_comes_before_the_name_is_made_and_validation_after(hooks: Hooks, second: Hooks) -> None:
    hooks.start(MUTATING)
    second.start()
    hooks.server.seen.clear()
    hooks.server.rule = patching(STAMP)
    body = pod_body("x")
    body["metadata"] = {"generateName": "train-"}

    made = hooks.wire.post(hooks.pods, body)

    (before,), (after,) = hooks.server.seen, second.server.seen
    assert "name" not in before["object"]["metadata"]
    assert after["object"]["metadata"]["name"] == made.body["metadata"]["name"]
    assert after["object"]["metadata"]["annotations"] == {OWNER: "alice"}


def test_they_are_asked_by_the_order_of_their_names(hooks: Hooks, second: Hooks) -> None:
    second.start(MUTATING, prefix="b-")
    hooks.start(MUTATING, prefix="a-")
    second.server.seen.clear()
    hooks.server.rule = patching(STAMP)

    hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert second.server.seen[0]["object"]["metadata"]["annotations"] == {OWNER: "alice"}


def test_it_may_not_make_a_pod_that_is_not_valid(hooks: Hooks) -> None:
    hooks.start(MUTATING)
    hooks.server.rule = patching({"op": "replace", "path": "/spec/containers", "value": []})

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert refused.code == 422
    assert hooks.wire.get(f"{hooks.pods}/trainer").code == 404


def test_a_patch_that_does_not_fit_is_an_internal_error(hooks: Hooks) -> None:
    hooks.start(MUTATING)
    hooks.server.rule = patching({"op": "remove", "path": "/spec/nowhere"})

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert (refused.code, refused.body["reason"]) == (500, "InternalError")


def test_it_may_deny_too(hooks: Hooks) -> None:
    hooks.start(MUTATING)
    hooks.server.rule = deny("a forged owner", 403)

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert refused.code == 403
    assert refused.message.endswith("denied the request: a forged owner")


def test_a_dry_run_is_mutated_and_not_stored(hooks: Hooks) -> None:
    hooks.start(MUTATING)
    hooks.server.rule = patching(STAMP)

    answered = hooks.probe()

    assert answered.body["metadata"]["annotations"] == {OWNER: "alice"}
    assert hooks.server.seen[-1]["dryRun"] is True
    assert hooks.wire.get(f"{hooks.pods}/probe").code == 404


def test_a_change_is_mutated_with_what_was_before_beside_it(hooks: Hooks) -> None:
    hooks.start(MUTATING, rules=[{**POD_RULE, "operations": ["CREATE", "UPDATE"]}])
    hooks.wire.post(hooks.pods, pod_body("trainer"))
    hooks.server.rule = patching(STAMP)

    changed = hooks.wire.patch(f"{hooks.pods}/trainer", {"metadata": {"labels": {"a": "b"}}})

    request = hooks.server.seen[-1]
    assert request["operation"] == "UPDATE"
    assert "labels" not in request["oldObject"]["metadata"]
    assert changed.body["metadata"]["labels"] == {"a": "b"}
    assert changed.body["metadata"]["annotations"] == {OWNER: "alice"}


def test_the_owner_of_a_job_is_stamped_by_who_asked(hooks: Hooks) -> None:
    rule = {**POD_RULE, "apiGroups": ["", "batch"], "resources": ["pods", "jobs"]}
    hooks.start(MUTATING, rules=[rule])

    def stamp(request: Body) -> Body:
        owner = {**STAMP, "value": {OWNER: request["userInfo"]["username"]}}
        return patching(owner)(request)

    hooks.server.rule = stamp
    jobs = f"/apis/batch/v1/namespaces/{hooks.namespace}/jobs"

    made = hooks.wire.post(jobs, job_body("train"))

    request = hooks.server.seen[-1]
    assert request["kind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert made.body["metadata"]["annotations"][OWNER] == request["userInfo"]["username"]


def test_one_that_is_gone_is_asked_no_more(hooks: Hooks) -> None:
    hooks.start(MUTATING)
    hooks.server.rule = patching(STAMP)

    hooks.remove()

    wait_for(lambda: "annotations" not in hooks.probe().body["metadata"])
