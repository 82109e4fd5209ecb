"""Server-side apply: a manager's whole intent, and what happens when two managers meet."""

from typing import Any

import pytest

from tests.contract.kubernetes.conftest import (
    APPLY,
    GPU_KEY,
    MERGE,
    Answer,
    Core,
    apply_quota,
    hard_body,
    refusal,
    status_body,
)
from tests.support.kubernetes.wire import Wire

MIG_KEY = "requests.nvidia.com/mig-1g.10gb"


def edit(core: Core, namespace: str, hard: dict[str, Any], manager: str) -> None:
    """Edit as a person does, by another manager."""
    core.patch_namespaced_resource_quota(
        "gpus", namespace, {"spec": {"hard": hard}}, field_manager=manager, _content_type=MERGE
    )


def hard_of(core: Core, namespace: str) -> dict[str, str]:
    found: dict[str, str] = core.read_namespaced_resource_quota("gpus", namespace).spec.hard
    return found


def owned(quota: Answer, manager: str, operation: str = "Apply") -> set[str]:
    """Return the keys of spec.hard a manager owns."""
    entries = [
        one
        for one in quota.metadata.managed_fields
        if (one.manager, one.operation, one.subresource) == (manager, operation, None)
    ]
    return {
        key.removeprefix("f:")
        for one in entries
        for key in one.fields_v1.get("f:spec", {}).get("f:hard", {})
        if key != "."
    }


def test_applying_makes_what_is_not_there(core: Core, namespace: str) -> None:
    made = apply_quota(core, namespace, hard_body({GPU_KEY: "8"}, labels={"by": "us"}))

    assert made.spec.hard == {GPU_KEY: "8"}
    assert made.metadata.labels == {"by": "us"}
    assert owned(made, "gpu-ledger") == {GPU_KEY}


def test_applying_the_same_again_changes_nothing(core: Core, namespace: str) -> None:
    first = apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))

    second = apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))

    assert second.metadata.managed_fields[0].time == first.metadata.managed_fields[0].time
    assert second.spec.hard == {GPU_KEY: "8"}


def test_a_key_that_is_not_sent_any_more_is_removed(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8", MIG_KEY: "4"}))

    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))

    assert hard_of(core, namespace) == {GPU_KEY: "8"}


def test_a_key_of_somebody_else_stays(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))
    edit(core, namespace, {"pods": "10"}, "kubectl-edit")

    apply_quota(core, namespace, hard_body({GPU_KEY: "9"}))

    assert hard_of(core, namespace) == {GPU_KEY: "9", "pods": "10"}


def test_what_another_manager_applied_is_a_conflict_that_names_it(
    core: Core, namespace: str
) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}), manager="another")

    error = refusal(lambda: apply_quota(core, namespace, hard_body({GPU_KEY: "2"})))

    status = status_body(error)
    assert (error.status, status["reason"]) == (409, "Conflict")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "another"',
            "field": f".spec.hard.{GPU_KEY}",
        }
    ]
    assert status["message"].startswith("Apply failed with 1 conflict: conflict with")
    assert hard_of(core, namespace) == {GPU_KEY: "8"}


def test_a_hand_edit_takes_the_key_over_and_stands_in_the_way(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))
    edit(core, namespace, {GPU_KEY: "64"}, "kubectl-edit")

    error = refusal(lambda: apply_quota(core, namespace, hard_body({GPU_KEY: "8"})))

    cause = status_body(error)["details"]["causes"][0]
    assert error.status == 409
    assert cause["message"].startswith('conflict with "kubectl-edit" using v1')
    assert hard_of(core, namespace) == {GPU_KEY: "64"}


def test_several_conflicts_are_reported_together(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8", MIG_KEY: "8"}), manager="another")

    error = refusal(lambda: apply_quota(core, namespace, hard_body({GPU_KEY: "2", MIG_KEY: "2"})))

    status = status_body(error)
    assert status["message"].startswith("Apply failed with 2 conflicts: conflicts with")
    assert {one["field"] for one in status["details"]["causes"]} == {
        f".spec.hard.{GPU_KEY}",
        f".spec.hard.{MIG_KEY}",
    }


def test_force_takes_over(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}), manager="another")

    taken = apply_quota(core, namespace, hard_body({GPU_KEY: "2"}), force=True)

    assert taken.spec.hard == {GPU_KEY: "2"}
    assert owned(taken, "gpu-ledger") == {GPU_KEY}
    assert owned(taken, "another") == set()


def test_the_same_value_is_owned_together(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}), manager="another")

    shared = apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))

    assert owned(shared, "gpu-ledger") == owned(shared, "another") == {GPU_KEY}


def test_what_is_owned_together_stays_when_one_lets_go(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}), manager="another")
    apply_quota(core, namespace, hard_body({GPU_KEY: "8", MIG_KEY: "1"}))

    left = apply_quota(core, namespace, hard_body({MIG_KEY: "1"}))

    assert left.spec.hard == {GPU_KEY: "8", MIG_KEY: "1"}
    assert owned(left, "gpu-ledger") == {MIG_KEY}


def test_the_same_name_by_apply_and_by_update_is_two_managers(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))
    edit(core, namespace, {GPU_KEY: "64"}, "gpu-ledger")

    error = refusal(lambda: apply_quota(core, namespace, hard_body({GPU_KEY: "8"})))

    assert error.status == 409
    assert hard_of(core, namespace) == {GPU_KEY: "64"}


def test_a_patch_without_the_content_type_is_no_apply(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8", MIG_KEY: "4"}))

    core.patch_namespaced_resource_quota(
        "gpus", namespace, hard_body({GPU_KEY: "8"}), field_manager="gpu-ledger"
    )

    assert hard_of(core, namespace) == {GPU_KEY: "8", MIG_KEY: "4"}


def test_an_apply_says_who_applies(core: Core, namespace: str) -> None:
    error = refusal(
        lambda: core.patch_namespaced_resource_quota(
            "gpus", namespace, hard_body({GPU_KEY: "8"}), _content_type=APPLY
        )
    )

    assert error.status in {400, 422}
    assert core.list_namespaced_resource_quota(namespace).items == []


def test_an_apply_on_an_old_version_is_a_conflict_of_versions(core: Core, namespace: str) -> None:
    old = apply_quota(core, namespace, hard_body({GPU_KEY: "8"}))
    apply_quota(core, namespace, hard_body({GPU_KEY: "9"}))
    body = hard_body({GPU_KEY: "7"}, resourceVersion=old.metadata.resource_version)

    error = refusal(lambda: apply_quota(core, namespace, body))

    status = status_body(error)
    assert (error.status, status["reason"]) == (409, "Conflict")
    assert "causes" not in (status.get("details") or {})
    assert hard_of(core, namespace) == {GPU_KEY: "9"}


def test_the_status_is_not_applied(core: Core, namespace: str) -> None:
    body = hard_body({GPU_KEY: "8"})
    body["status"] = {"hard": {GPU_KEY: "1"}, "used": {GPU_KEY: "77"}}

    apply_quota(core, namespace, body)

    status = core.read_namespaced_resource_quota("gpus", namespace).status
    assert (status.used or {}).get(GPU_KEY, "0") == "0"


def test_annotations_are_owned_one_by_one(core: Core, namespace: str) -> None:
    apply_quota(core, namespace, hard_body({GPU_KEY: "8"}, annotations={"ours/generation": "1"}))
    core.patch_namespaced_resource_quota(
        "gpus", namespace, {"metadata": {"annotations": {"theirs": "kept"}}}, field_manager="them"
    )

    after = apply_quota(
        core, namespace, hard_body({GPU_KEY: "8"}, annotations={"ours/generation": "2"})
    )

    assert after.metadata.annotations == {"ours/generation": "2", "theirs": "kept"}


@pytest.mark.needs("1.24")
def test_an_applied_change_of_the_spec_raises_the_generation(wire: Wire, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/applied"
    container = {"name": "main", "image": "example.com/none:1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}

    def apply(parallelism: int) -> int:
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "applied"},
            "spec": {"parallelism": parallelism, "template": template},
        }
        answer = wire.patch(path, body, APPLY, fieldManager="gpu-ledger")
        return int(answer.body["metadata"].get("generation", 0))

    assert [apply(0), apply(0), apply(1)] == [1, 1, 2]
