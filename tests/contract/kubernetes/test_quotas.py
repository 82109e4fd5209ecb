"""ResourceQuotas: what counts, when the status follows, and what is refused."""

import pytest

from tests.contract.kubernetes.conftest import (
    GPU,
    GPU_KEY,
    Core,
    hard_body,
    pod_body,
    refusal,
    status_body,
    wait_for,
    wait_for_hard,
    wait_for_used,
)

MIG_KEY = "requests.nvidia.com/mig-1g.10gb"


@pytest.fixture
def limited(core: Core, namespace: str) -> str:
    """Return a namespace whose quota of eight GPUs is in force."""
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "8"}))
    wait_for_hard(core, namespace, {GPU_KEY: "8"})
    return namespace


def finish(core: Core, namespace: str, name: str, phase: str = "Succeeded") -> None:
    core.patch_namespaced_pod_status(name, namespace, {"status": {"phase": phase}})


def test_the_status_follows_the_spec(core: Core, namespace: str) -> None:
    hard = {GPU_KEY: "8", MIG_KEY: "4"}

    core.create_namespaced_resource_quota(namespace, hard_body(hard))

    wait_for_hard(core, namespace, hard)
    status = core.read_namespaced_resource_quota("gpus", namespace).status
    assert status.used == {GPU_KEY: "0", MIG_KEY: "0"}


def test_a_pod_counts_from_its_creation_although_it_is_pending(core: Core, limited: str) -> None:
    pod = core.create_namespaced_pod(limited, pod_body("waiting", gpus=6))

    assert pod.status.phase == "Pending"
    wait_for_used(core, limited, "6")


def test_what_does_not_fit_is_refused_with_the_figures(core: Core, limited: str) -> None:
    core.create_namespaced_pod(limited, pod_body("first", gpus=6))
    wait_for_used(core, limited, "6")

    error = refusal(lambda: core.create_namespaced_pod(limited, pod_body("second", gpus=4)))

    status = status_body(error)
    assert error.status == 403
    assert status["reason"] == "Forbidden"
    assert status["message"] == (
        'pods "second" is forbidden: exceeded quota: gpus,'
        f" requested: {GPU_KEY}=4, used: {GPU_KEY}=6, limited: {GPU_KEY}=8"
    )
    assert [one.metadata.name for one in core.list_namespaced_pod(limited).items] == ["first"]
    wait_for_used(core, limited, "6")


def test_what_just_fits_is_let_in(core: Core, limited: str) -> None:
    core.create_namespaced_pod(limited, pod_body("whole", gpus=8))

    wait_for_used(core, limited, "8")


def test_a_pod_without_gpus_passes_a_full_quota(core: Core, limited: str) -> None:
    core.create_namespaced_pod(limited, pod_body("whole", gpus=8))
    wait_for_used(core, limited, "8")

    made = core.create_namespaced_pod(limited, pod_body("plain"))

    assert made.metadata.name == "plain"


def test_lowering_below_use_ends_nobody_and_lets_nobody_in(core: Core, limited: str) -> None:
    core.create_namespaced_pod(limited, pod_body("running", gpus=6))
    wait_for_used(core, limited, "6")

    core.patch_namespaced_resource_quota("gpus", limited, {"spec": {"hard": {GPU_KEY: "2"}}})
    wait_for_hard(core, limited, {GPU_KEY: "2"})

    error = refusal(lambda: core.create_namespaced_pod(limited, pod_body("more", gpus=1)))
    status = core.read_namespaced_resource_quota("gpus", limited).status
    assert error.status == 403
    assert (status.hard[GPU_KEY], status.used[GPU_KEY]) == ("2", "6")
    assert core.read_namespaced_pod("running", limited).metadata.name == "running"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_counts_no_more(core: Core, limited: str, phase: str) -> None:
    core.create_namespaced_pod(limited, pod_body("job", gpus=8))
    wait_for_used(core, limited, "8")

    finish(core, limited, "job", phase)

    wait_for_used(core, limited, "0")
    assert core.create_namespaced_pod(limited, pod_body("next", gpus=8)).metadata.uid


def test_a_deleted_pod_counts_no_more(core: Core, limited: str) -> None:
    core.create_namespaced_pod(limited, pod_body("job", gpus=8))
    wait_for_used(core, limited, "8")

    core.delete_namespaced_pod("job", limited)

    wait_for_used(core, limited, "0")


def test_init_containers_count_by_the_larger_of_the_two(core: Core, limited: str) -> None:
    body = pod_body("staged", gpus=1)
    resources = {"limits": {GPU: "4"}}
    body["spec"]["initContainers"] = [
        {"name": "warmup", "image": "example.com/none:1", "resources": resources}
    ]

    core.create_namespaced_pod(limited, body)

    wait_for_used(core, limited, "4")


@pytest.mark.needs("1.29")
def test_sidecars_count_beside_what_runs_with_them(core: Core, limited: str) -> None:
    body = pod_body("staged", gpus=1)
    body["spec"]["initContainers"] = [
        {
            "name": "sidecar",
            "image": "example.com/none:1",
            "restartPolicy": "Always",
            "resources": {"limits": {GPU: "1"}},
        },
        {
            "name": "warmup",
            "image": "example.com/none:1",
            "resources": {"limits": {GPU: "4"}},
        },
    ]

    core.create_namespaced_pod(limited, body)

    wait_for_used(core, limited, "5")


def test_every_quota_of_a_namespace_must_agree(core: Core, limited: str) -> None:
    core.create_namespaced_resource_quota(limited, hard_body({GPU_KEY: "2"}, name="smaller"))
    wait_for_hard(core, limited, {GPU_KEY: "2"}, "smaller")

    error = refusal(lambda: core.create_namespaced_pod(limited, pod_body("three", gpus=3)))

    assert error.status == 403
    assert "exceeded quota: smaller" in status_body(error)["message"]
    wait_for_used(core, limited, "0")


def test_a_quota_of_another_resource_does_not_stop_it(core: Core, namespace: str) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({MIG_KEY: "0"}))
    wait_for_hard(core, namespace, {MIG_KEY: "0"})

    assert core.create_namespaced_pod(namespace, pod_body("free", gpus=2)).metadata.uid


def test_a_key_without_its_prefix_is_accepted_and_never_counts(core: Core, namespace: str) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({"example.com/other": "0"}))
    body = pod_body("free")
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/other": "1"}}

    assert core.create_namespaced_pod(namespace, body).metadata.uid


def test_a_key_that_is_no_resource_is_invalid(core: Core, namespace: str) -> None:
    error = refusal(
        lambda: core.create_namespaced_resource_quota(namespace, hard_body({"gpus": "1"}))
    )

    assert error.status == 422
    assert core.list_namespaced_resource_quota(namespace).items == []


@pytest.mark.parametrize("amount", ["-1", "many"])
def test_an_amount_that_is_no_count_is_invalid(core: Core, namespace: str, amount: str) -> None:
    error = refusal(
        lambda: core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: amount}))
    )

    assert error.status in {400, 422}
    assert core.list_namespaced_resource_quota(namespace).items == []


def test_a_limit_of_half_a_device_is_accepted_and_lets_nobody_in(
    core: Core, namespace: str
) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "500m"}))
    wait_for_hard(core, namespace, {GPU_KEY: "500m"})

    error = refusal(lambda: core.create_namespaced_pod(namespace, pod_body("one", gpus=1)))

    assert error.status == 403


def test_the_scopes_of_a_quota_cannot_change(core: Core, limited: str) -> None:
    error = refusal(
        lambda: core.patch_namespaced_resource_quota(
            "gpus", limited, {"spec": {"scopes": ["NotTerminating"]}}
        )
    )

    assert error.status == 422


def test_a_scoped_quota_counts_what_fits_its_scope(core: Core, namespace: str) -> None:
    body = hard_body({"pods": "1"}, name="bounded")
    body["spec"]["scopes"] = ["Terminating"]
    core.create_namespaced_resource_quota(namespace, body)
    wait_for_hard(core, namespace, {"pods": "1"}, "bounded")

    for name in ("a", "b"):
        core.create_namespaced_pod(namespace, pod_body(name))
    core.create_namespaced_pod(namespace, pod_body("c", activeDeadlineSeconds=60))

    error = refusal(
        lambda: core.create_namespaced_pod(namespace, pod_body("d", activeDeadlineSeconds=60))
    )
    assert error.status == 403
    wait_for(
        lambda: (
            core.read_namespaced_resource_quota("bounded", namespace).status.used == {"pods": "1"}
        )
    )
