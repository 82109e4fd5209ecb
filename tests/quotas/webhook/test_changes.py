"""What a pod or a claim was let in by stays as it is."""

from typing import Any

import pytest

from quotas.models import Reservation
from quotas.webhook import answers
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Webhooks
from tests.support.quotas.reviews import FREE, claim, pod

pytestmark = pytest.mark.django_db
JSON = dict[str, Any]
ALL = {"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
WORK_KIND = "gpu-ledger.io/work-kind"


def labelled(made: JSON, labels: JSON) -> JSON:
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def device_annotated(devices: str) -> JSON:
    made = pod(1)
    made["metadata"]["annotations"] = {"cdi.k8s.io/x": devices}
    return made


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("new", "old", "reason"),
    [
        (pod(1, owner="alice"), pod(1, owner="alice"), "unchanged"),
        (pod(0), pod(0), "no_gpus"),
        (pod(1, owner="bob"), pod(1, owner="alice"), "owner_changed"),
        (pod(1), pod(1, owner="alice"), "owner_changed"),
        (pod(2), pod(1), "request_changed"),
        (pod(0, ephemeralContainers=[ALL]), pod(0), "hidden_gpus"),
        (pod(1, ephemeralContainers=[ALL]), pod(1), "hidden_gpus"),
        (
            device_annotated("nvidia.com/gpu=all"),
            device_annotated("nvidia.com/gpu=0"),
            "hidden_gpus",
        ),
        (device_annotated("nvidia.com/gpu=0"), device_annotated("nvidia.com/gpu=0"), "unchanged"),
        (claim(1, annotations=FREE), claim(1), "forged_claim"),
        (claim(1, annotations=FREE), claim(1, annotations=FREE), "unchanged"),
    ],
    ids=[
        *("same", "no_gpus", "another", "taken_away", "more", "ephemeral", "ephemeral_beside"),
        *("devices", "same_devices", "claim", "same_claim"),
    ],
)
def test_a_change_may_touch_neither_owner_nor_gpus(
    webhooks: Webhooks, new: JSON, old: JSON, reason: str
) -> None:
    answer = webhooks.admit(new, operation="UPDATE", oldObject=old)

    assert answer.reason == reason
    assert answer.is_allowed is (reason in {"unchanged", "no_gpus"})
    assert Reservation.objects.count() == 0


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("new", "old", "reason"),
    [
        ({"team/user": "bob"}, {"team/user": "alice"}, "label_changed"),
        ({}, {"team/user": "alice"}, "label_changed"),
        ({"team_user": "bob"}, {"team_user": "alice"}, "label_changed"),
        ({WORK_KIND: "inference"}, {WORK_KIND: "training"}, "label_changed"),
        ({"team/user": "alice", "tier": "1"}, {"team/user": "alice", "tier": "2"}, "unchanged"),
    ],
    ids=["user", "taken_away", "spelt_otherwise", "work_kind", "another"],
)
@pytest.mark.parametrize("made", [pod(1), pod(0, resourceClaims=[{"name": "gpu"}])])
def test_what_a_pod_counts_for_cannot_be_relabelled(
    webhooks: Webhooks, hopper: Cluster, made: JSON, new: JSON, old: JSON, reason: str
) -> None:
    hopper.user_label = "team/user"
    hopper.save(update_fields=["user_label"])

    answer = webhooks.admit(labelled(made, new), operation="UPDATE", oldObject=labelled(made, old))

    assert (answer.is_allowed, answer.reason) == (reason == "unchanged", reason)
    hopper.admission_mode = "warn"
    hopper.save(update_fields=["admission_mode"])
    answers.FACTS.purge()
    warned = webhooks.admit(labelled(made, new), operation="UPDATE", oldObject=labelled(made, old))
    assert warned.is_allowed
