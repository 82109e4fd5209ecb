"""The endpoint of owners: who an object belongs to is written into it."""

import base64
import json
from typing import Any

import pytest

from simulator.kubernetes_api.patches import json_patch
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Answer, Webhooks
from tests.support.quotas.reviews import JOB_CONTROLLER, container, job, made_by, pod

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hopper")]
JSON = dict[str, Any]
OWNER = "gpu-ledger.io/owner"
ROBOT = "system:serviceaccount:team-llm:robot"


def patched(obj: JSON, answer: Answer) -> JSON:
    response = answer.body["response"]
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    return json_patch(obj, json.loads(base64.b64decode(response["patch"])))


def owner_in(obj: JSON) -> str:
    template = obj if obj["kind"] == "Pod" else obj["spec"]["template"]
    return str(template["metadata"].get("annotations", {}).get(OWNER, ""))


@pytest.mark.parametrize("obj", [pod(), pod(owner="bob"), job(), job(owner="bob")])
def test_what_a_person_creates_is_theirs_whatever_it_says(webhooks: Webhooks, obj: JSON) -> None:
    answer = webhooks.stamp(obj)

    assert (answer.is_allowed, answer.reason) == (True, "stamped")
    assert owner_in(patched(obj, answer)) == "alice"


@pytest.mark.parametrize("obj", [pod(owner="alice"), job(owner="alice"), pod(0), job(0)])
def test_what_says_it_already_or_has_no_gpus_is_left_alone(webhooks: Webhooks, obj: JSON) -> None:
    answer = webhooks.stamp(obj)

    assert (answer.is_allowed, answer.reason) == (True, "as_it_is")
    assert "patch" not in answer.body["response"]


@pytest.mark.parametrize("obj", [pod(owner="bob"), pod(), job(owner="bob")])
def test_a_controller_carries_on_what_was_written(webhooks: Webhooks, obj: JSON) -> None:
    obj = made_by(obj, "batch/v1", "CronJob" if obj["kind"] == "Job" else "Job")

    assert patched(obj, webhooks.stamp(obj, user=JOB_CONTROLLER)) == obj


@pytest.mark.parametrize("obj", [pod(owner="bob"), job(owner="bob")])
def test_what_a_kind_that_is_not_stamped_says_is_not_carried_on(
    webhooks: Webhooks, obj: JSON
) -> None:
    obj = made_by(obj, "example.com/v1", "Train")

    assert owner_in(patched(obj, webhooks.stamp(obj, user=JOB_CONTROLLER))) == ""


def test_a_replication_controller_is_stamped(webhooks: Webhooks) -> None:
    made = {**job(owner="bob"), "apiVersion": "v1", "kind": "ReplicationController"}

    assert owner_in(patched(made, webhooks.stamp(made))) == "alice"


@pytest.mark.parametrize("obj", [pod(owner="bob"), job(owner="bob")])
def test_a_machine_cannot_name_an_owner(webhooks: Webhooks, obj: JSON) -> None:
    assert owner_in(patched(obj, webhooks.stamp(obj, user=ROBOT))) == ""


def test_the_prefix_of_a_cluster_is_taken_off(webhooks: Webhooks, hopper: Cluster) -> None:
    hopper.kubernetes_user_prefix = "oidc:"
    hopper.trusted_controllers = ["oidc:operator"]
    hopper.save(update_fields=["kubernetes_user_prefix", "trusted_controllers"])

    assert owner_in(patched(pod(), webhooks.stamp(pod(), user="oidc:alice"))) == "alice"
    assert owner_in(patched(pod(), webhooks.stamp(pod(), user="alice"))) == ""
    forged = pod(owner="bob")
    assert owner_in(patched(forged, webhooks.stamp(forged, user="oidc:operator"))) == "bob"


@pytest.mark.parametrize(
    ("new", "old", "user", "whose"),
    [
        (job(2, owner="alice"), job(1, owner="alice"), "bob", "bob"),
        (job(1, owner="bob"), job(1, owner="alice"), "bob", "alice"),
        (job(1), job(1, owner="alice"), ROBOT, "alice"),
        (job(1, owner="alice", parallelism=3), job(1, owner="alice"), "bob", "alice"),
        (
            made_by(job(2, owner="carol"), "batch/v1", "CronJob"),
            job(1, owner="alice"),
            JOB_CONTROLLER,
            "carol",
        ),
        (job(2, owner="carol"), job(1, owner="alice"), JOB_CONTROLLER, "alice"),
    ],
    ids=["changed_work", "changed_owner", "taken_away", "more_pods", "controller", "nobodys"],
)
def test_anyone_who_changes_what_runs_owns_it(
    webhooks: Webhooks, new: JSON, old: JSON, user: str, whose: str
) -> None:
    answer = webhooks.stamp(new, user=user, operation="UPDATE", oldObject=old)

    assert owner_in(patched(new, answer)) == whose


def test_a_pod_is_never_stamped_again(webhooks: Webhooks) -> None:
    answer = webhooks.stamp(pod(), user="bob", operation="UPDATE", oldObject=pod(owner="alice"))

    assert answer.reason == "as_it_is"


def test_a_kind_nobody_knows_and_a_deletion_are_left_alone(webhooks: Webhooks) -> None:
    other = {**job(), "apiVersion": "example.com/v1", "kind": "Other"}

    assert webhooks.stamp(other).reason == "as_it_is"
    assert webhooks.stamp(None, operation="DELETE").reason == "nothing_to_decide"


def test_every_template_of_a_kind_is_stamped(webhooks: Webhooks) -> None:
    template = {"spec": {"containers": [container(gpu="1")]}}
    cluster: JSON = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": []}}},
            "workerGroupSpecs": [{"template": template}, {"template": template}],
        },
    }

    made = patched(cluster, webhooks.stamp(cluster))

    workers = made["spec"]["workerGroupSpecs"]
    assert [one["template"]["metadata"]["annotations"][OWNER] for one in workers] == ["alice"] * 2
    assert made["spec"]["headGroupSpec"] == cluster["spec"]["headGroupSpec"]


def test_a_template_no_server_would_make_is_refused(webhooks: Webhooks) -> None:
    garbled = job()
    garbled["spec"]["template"]["spec"] = "pods"

    answer = webhooks.stamp(garbled)

    assert (answer.is_allowed, answer.code, answer.reason) == (False, 400, "malformed")


def test_where_admission_is_off_nothing_is_stamped(webhooks: Webhooks, hopper: Cluster) -> None:
    hopper.admission_mode = "off"
    hopper.save(update_fields=["admission_mode"])

    assert webhooks.stamp(pod()).reason == "off"
