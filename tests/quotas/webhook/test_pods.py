"""The endpoint of pods: what is let in, what is refused, and with which words."""

import json
from typing import Any

import pytest

from quotas.models import AdmissionRefusal, Reservation
from tenants.models import Cluster, Organization, Project
from tests.quotas.webhook.conftest import Webhooks, make_node
from tests.support.builders import bind, make_organization, make_project
from tests.support.quotas.builders import make_limit
from tests.support.quotas.reviews import (
    FREE,
    JOB_CONTROLLER,
    REVIEW_UID,
    UID,
    claim,
    container,
    job,
    made_by,
    pod,
)

pytestmark = pytest.mark.django_db
JSON = dict[str, Any]
PRIVILEGED = {"name": "main", "securityContext": {"privileged": True}}
ALL = {"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}


@pytest.fixture
def limit(acme: Organization, llm: Project) -> None:
    """Grant project llm four Large."""
    from quotas.services.limits.changes import open_counter  # noqa: PLC0415 - Only here.
    from tests.support.builders import AT  # noqa: PLC0415 - As above.

    open_counter(limit=make_limit(acme, llm, units=4), at=AT)


def reserved() -> list[tuple[str, str, int, str]]:
    rows = Reservation.objects.order_by("resource").values_list(
        "pod_uid", "resource", "units", "owner"
    )
    return list(rows)


@pytest.mark.usefixtures("limit")
def test_a_pod_that_fits_is_let_in_and_counted(webhooks: Webhooks) -> None:
    answer = webhooks.admit(pod(2))

    assert answer.status == 200
    assert answer.body["response"]["uid"] == REVIEW_UID
    assert (answer.is_allowed, answer.reason) == (True, "allowed")
    assert reserved() == [(UID, "nvidia.com/gpu", 2, "alice")]


@pytest.mark.usefixtures("limit")
def test_a_pod_that_does_not_fit_is_reported_every_number_and_what_to_do(
    webhooks: Webhooks,
) -> None:
    other = pod(3)
    other["metadata"]["uid"] = "other"
    assert webhooks.admit(other).is_allowed

    answer = webhooks.admit(pod(2))

    assert (answer.is_allowed, answer.code, answer.reason) == (False, 403, "limit_reached")
    assert answer.message == (
        "Project llm of acme requests 2 Large, limit 4, used 0, reserved 3: "
        "ask for quota at http://127.0.0.1:8000/api/v1/quota-requests/."
    )
    assert [row[0] for row in reserved()] == ["other"]


@pytest.mark.usefixtures("limit")
def test_asking_again_counts_nothing_again(webhooks: Webhooks) -> None:
    webhooks.admit(pod(3))

    assert webhooks.admit(pod(3)).reason == "allowed_before"
    assert len(reserved()) == 1


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(("gpus", "is_allowed"), [(4, True), (5, False)])
def test_a_dry_run_is_answered_and_writes_nothing(
    webhooks: Webhooks,
    gpus: int,
    is_allowed: bool,  # noqa: FBT001 - A table.
) -> None:
    answer = webhooks.admit(pod(gpus), dryRun=True)

    assert answer.is_allowed is is_allowed
    assert reserved() == []
    assert AdmissionRefusal.objects.count() == 0


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(
    "spec",
    [
        {"initContainers": [container(gpu="5")]},
        {"initContainers": [{**container("s", gpu="5"), "restartPolicy": "Always"}]},
        {"containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "5"}}}]},
        {"containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "5e0"}}}]},
        {"containers": [container("a", gpu="3"), container("b", gpu="2")]},
        {"ephemeralContainers": [container(gpu="5")]},
    ],
    ids=["init", "sidecar", "limits", "requests", "two", "ephemeral"],
)
def test_gpus_cannot_be_hidden_in_a_container(webhooks: Webhooks, spec: JSON) -> None:
    answer = webhooks.admit(pod(0, **spec))

    assert answer.reason == "limit_reached"
    assert reserved() == []


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize("count", [1_000_000, 999_999])
def test_a_claim_for_more_than_can_be_counted_is_refused(webhooks: Webhooks, count: int) -> None:
    two = claim(count, 1)

    answer = webhooks.admit(two)

    assert answer.is_allowed is (count == 999_999)
    assert answer.reason == ("allowed_ungoverned" if answer.is_allowed else "malformed")


def test_a_pod_without_gpus_is_let_in_without_asking(webhooks: Webhooks, llm: Project) -> None:
    assert webhooks.admit(pod(0)).reason == "no_gpus"
    assert llm is not None
    assert reserved() == []


def test_an_ungoverned_tenant_is_let_in_and_counted(webhooks: Webhooks, llm: Project) -> None:
    assert webhooks.admit(pod(7)).reason == "allowed_ungoverned"
    assert llm is not None
    assert len(reserved()) == 1


@pytest.mark.usefixtures("hopper")
def test_a_namespace_nobody_has_is_refused(webhooks: Webhooks) -> None:
    answer = webhooks.admit(pod(1))

    assert answer.reason == "namespace_unbound"
    assert "belongs to no project" in answer.message


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("resource", "known"), [("nvidia.com/gpumem", "nvidia.com/gpu"), ("nvidia.com/mig-9x", "gpu")]
)
def test_a_device_no_rule_knows_is_refused_with_what_there_is(
    webhooks: Webhooks, resource: str, known: str
) -> None:
    answer = webhooks.admit(pod(0, containers=[container(**{resource: "1"})]))

    assert (answer.is_allowed, answer.reason) == (False, "unknown_device")
    assert "add a rule to the size catalogue" in answer.message
    assert known in answer.message


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [ALL]},
        {"initContainers": [ALL]},
        {"volumes": [{"name": "d", "hostPath": {"path": "/dev/nvidia0"}}]},
        {"volumes": [{"name": "d", "hostPath": {"path": "/"}}]},
        {"containers": [PRIVILEGED], "runtimeClassName": "nvidia"},
        {"containers": [ALL], "resourceClaims": [{"name": "x", "resourceClaimName": "nic"}]},
        {"containers": [container(gpu="1"), {**ALL, "name": "other"}]},
        {"containers": [{**container(gpu="0"), "env": ALL["env"]}]},
    ],
    ids=["variable", "init", "device", "root", "privileged", "claim", "another", "none_of_it"],
)
def test_gpus_without_a_request_are_refused(webhooks: Webhooks, spec: JSON) -> None:
    answer = webhooks.admit(pod(0, **spec))

    assert (answer.is_allowed, answer.reason) == (False, "hidden_gpus")
    assert "request nvidia.com/gpu" in answer.message
    assert reserved() == []


@pytest.mark.usefixtures("llm")
def test_more_gpus_than_requested_are_warned_of(webhooks: Webhooks) -> None:
    answer = webhooks.admit(pod(0, containers=[{**container(gpu="1"), "env": ALL["env"]}]))

    assert answer.is_allowed
    assert "may reach more GPUs than it requests" in answer.warnings[0]


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("user", "owner", "whose"),
    [
        ("alice", "", "alice"),
        ("alice", "alice", "alice"),
        (JOB_CONTROLLER, "bob", "bob"),
        (JOB_CONTROLLER, "", "lina"),
        ("system:serviceaccount:team-llm:robot", "", "lina"),
    ],
)
def test_a_pod_counts_for_its_owner(webhooks: Webhooks, user: str, owner: str, whose: str) -> None:
    assert webhooks.admit(made_by(pod(1, owner=owner), "batch/v1", "Job"), user=user).is_allowed
    assert reserved() == [(UID, "nvidia.com/gpu", 1, whose)]


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize("made", [pod(1, owner="bob"), made_by(pod(1, owner="bob"), "v1", "Train")])
def test_kube_system_carries_on_nothing_that_was_not_stamped(
    webhooks: Webhooks, made: JSON
) -> None:
    answer = webhooks.admit(made, user=JOB_CONTROLLER)

    assert (answer.is_allowed, answer.reason) == (False, "forged_owner")
    assert reserved() == []


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize("user", ["alice", "system:serviceaccount:team-llm:robot"])
def test_a_forged_owner_is_refused(webhooks: Webhooks, user: str) -> None:
    answer = webhooks.admit(pod(1, owner="bob"), user=user)

    assert (answer.is_allowed, answer.reason) == (False, "forged_owner")
    assert reserved() == []


@pytest.mark.usefixtures("limit")
def test_a_claim_counts_as_nominal_and_its_refusal_says_so(webhooks: Webhooks) -> None:
    answer = webhooks.admit(claim(5))

    assert answer.reason == "limit_reached"
    assert answer.message.endswith(
        "A resource claim has no priority class: it counts against "
        "nominal units, also where preemptible pods use it."
    )


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("obj", "changes"),
    [
        (job(), {}),
        (None, {}),
        (pod(1), {"namespace": ""}),
        (pod(1), {"operation": "UPDATE"}),
        ({**pod(1), "metadata": {"name": "x"}}, {}),
        (pod(0, containers=[container(gpu="0.5")]), {}),
        (pod(0, containers="many"), {}),
    ],
    ids=["a_job", "nothing", "nowhere", "no_old", "no_uid", "half", "garbled"],
)
def test_an_odd_object_is_refused_and_never_let_in(
    webhooks: Webhooks, obj: JSON | None, changes: JSON
) -> None:
    answer = webhooks.admit(obj, **changes)

    assert (answer.status, answer.is_allowed) == (200, False)
    assert (answer.code, answer.reason) == (400, "malformed")
    assert reserved() == []


@pytest.mark.usefixtures("llm")
def test_a_deletion_is_nobodys_business(webhooks: Webhooks) -> None:
    answer = webhooks.admit(None, operation="DELETE", kind={"group": "", "kind": "Pod"})

    assert answer.reason == "nothing_to_decide"


def test_a_cluster_that_only_warns_lets_in_and_says_what_it_would_refuse(
    webhooks: Webhooks, hopper: Cluster, acme: Organization, llm: Project
) -> None:
    make_limit(acme, llm, units=0)
    hopper.admission_mode = "warn"
    hopper.save(update_fields=["admission_mode"])

    answer = webhooks.admit(pod(1, owner="bob"))

    assert (answer.is_allowed, answer.reason) == (True, "forged_owner")
    assert answer.warnings[0].startswith("GPU quota would refuse this: ")
    assert len(reserved()) == 1


def test_a_cluster_that_is_off_is_not_looked_at(webhooks: Webhooks, hopper: Cluster) -> None:
    hopper.admission_mode = "off"
    hopper.save(update_fields=["admission_mode"])

    assert webhooks.admit(pod(99)).reason == "off"


@pytest.mark.usefixtures("llm")
def test_a_claim_is_counted_under_its_own_uid(webhooks: Webhooks) -> None:
    assert webhooks.admit(claim(2)).is_allowed
    assert reserved() == [("claim-uid", "claim/gpu.nvidia.com", 2, "alice")]


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("alice", "forged_claim"),
        ("system:serviceaccount:kube-system:resource-claim-controller", "forged_claim"),
        ("system:kube-scheduler", "no_gpus"),
    ],
)
def test_only_the_scheduler_says_that_a_claim_was_counted_with_its_pod(
    webhooks: Webhooks, user: str, reason: str
) -> None:
    answer = webhooks.admit(claim(8, annotations=FREE), user=user)

    assert (answer.is_allowed, answer.reason) == (reason == "no_gpus", reason)
    assert reserved() == []


@pytest.mark.usefixtures("llm")
def test_a_pod_that_uses_a_claim_is_let_in_since_the_claim_was_asked_about(
    webhooks: Webhooks,
) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "two"}]

    assert webhooks.admit(pod(0, resourceClaims=claims)).reason == "no_gpus"
    assert reserved() == []


def test_a_shared_device_that_other_tenants_use_is_refused_with_what_is_allowed(
    webhooks: Webhooks, hopper: Cluster, llm: Project
) -> None:
    bind(hopper, "team-x", make_project(make_organization("umbrella"), "x"))
    shared = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
        "nvidia.com/gpu.replicas": "4",
    }
    make_node(hopper, "n2", labels=shared)
    selector = {"nvidia.com/gpu.product": shared["nvidia.com/gpu.product"]}

    answer = webhooks.admit(pod(1, nodeSelector=selector))

    assert llm is not None
    assert (answer.is_allowed, answer.reason) == (False, "tenants_would_meet")
    assert "nvidia.com/gpu" in answer.message
    assert reserved() == []


def test_the_message_is_json_whatever_the_names(webhooks: Webhooks, llm: Project) -> None:
    answer = webhooks.admit(pod(0, containers=[container(**{'nvidia.com/gpu"x': "1"})]))

    assert llm is not None
    assert answer.reason == "unknown_device"
    assert json.loads(json.dumps(answer.body)) == answer.body
