"""Whose a pod is, and how it is written into it."""

import pytest

from quotas.domain.admission.ownership import (
    KnownRequester,
    controlling_kind,
    identity_of,
    is_forged,
    new_owner,
    old_template,
    owner_label,
    owner_of,
    stamp,
)
from quotas.domain.admission.pods import pod_ask
from quotas.domain.admission.review import Requester
from quotas.domain.admission.workload_templates import templates_of
from simulator.kubernetes_api.patches import json_patch
from tests.support.quotas.reviews import JOB_CONTROLLER, job, pod

OWNER = "gpu-ledger.io/owner"
ALICE = KnownRequester(person="alice", is_trusted=False)
BOB = KnownRequester(person="bob", is_trusted=False)
CONTROLLER = KnownRequester(person="", is_trusted=True)
CONTROLLED = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
ROBOT = KnownRequester(person="", is_trusted=False)


@pytest.mark.parametrize(
    ("username", "identity"),
    [
        ("oidc:alice", ALICE),
        ("alice", ROBOT),
        ("oidc:" + "a" * 151, ROBOT),
        ("oidc:", ROBOT),
        ("", ROBOT),
        (JOB_CONTROLLER, ROBOT),
        ("system:kube-controller-manager", ROBOT),
        ("system:serviceaccount:kubeflow:training-operator", CONTROLLER),
        ("system:serviceaccount:team-llm:robot", ROBOT),
        ("system:serviceaccount:kube-systemic:x", ROBOT),
        ("system:admin", ROBOT),
        ("system:node:n1", ROBOT),
    ],
)
def test_who_asks_is_reported_from_the_user_name(username: str, identity: KnownRequester) -> None:
    trusted = frozenset({"system:serviceaccount:kubeflow:training-operator"})

    assert identity_of(Requester(username), prefix="oidc:", trusted=trusted) == identity


@pytest.mark.parametrize(
    "username",
    [
        JOB_CONTROLLER,
        "system:serviceaccount:kube-system:replication-controller",
        "system:kube-controller-manager",
    ],
)
@pytest.mark.parametrize(
    ("made_by", "identity"),
    [
        (("batch", "Job"), CONTROLLER),
        (("", "ReplicationController"), CONTROLLER),
        (("example.com", "Job"), ROBOT),
        (("", "Pod"), ROBOT),
        (None, ROBOT),
    ],
)
def test_kube_system_carries_on_what_a_stamped_kind_asked_for(
    username: str, made_by: tuple[str, str] | None, identity: KnownRequester
) -> None:
    assert identity_of(Requester(username), prefix="oidc:", made_by=made_by) == identity


def test_what_controls_an_object_is_reported_by_its_reference() -> None:
    made = {"metadata": {"ownerReferences": [{"kind": "Node"}, CONTROLLED]}}

    assert controlling_kind(made) == ("batch", "Job")
    in_core = {**CONTROLLED, "apiVersion": "v1", "kind": "ReplicationController"}
    assert controlling_kind({"metadata": {"ownerReferences": [in_core]}}) == (
        "",
        "ReplicationController",
    )
    assert controlling_kind({"metadata": {"ownerReferences": [{"kind": "Job"}]}}) is None
    assert controlling_kind({}) is None


def test_without_a_prefix_the_name_is_ours() -> None:
    assert identity_of(Requester("alice")) == ALICE
    assert identity_of(Requester("system:anonymous")) == ROBOT


@pytest.mark.parametrize(
    ("owner", "identity", "forged", "whose"),
    [
        ("alice", ALICE, False, "alice"),
        ("", ALICE, False, "alice"),
        ("bob", ALICE, True, "bob"),
        ("bob", CONTROLLER, False, "bob"),
        ("", CONTROLLER, False, ""),
        ("bob", ROBOT, True, "bob"),
        ("", ROBOT, False, ""),
    ],
)
def test_only_controllers_may_name_somebody_else(
    owner: str,
    identity: KnownRequester,
    forged: bool,  # noqa: FBT001 - A table.
    whose: str,
) -> None:
    ask = pod_ask(pod(owner=owner))

    assert is_forged(ask, identity) is forged
    assert owner_of(ask, identity) == whose


def test_a_new_template_is_of_who_asks() -> None:
    template = pod(owner="bob")

    assert new_owner(template, None, ALICE) == "alice"
    assert new_owner(template, None, ROBOT) == ""
    assert new_owner(template, None, CONTROLLER) == "bob"


def test_anyone_who_changes_what_runs_owns_it_from_then_on() -> None:
    assert new_owner(pod(2, owner="alice"), pod(1, owner="alice"), BOB) == "bob"


def test_a_change_of_the_annotation_alone_changes_no_owner() -> None:
    assert new_owner(pod(owner="bob"), pod(owner="alice"), BOB) == "alice"
    assert new_owner(pod(), pod(owner="alice"), BOB) == "alice"


def test_a_machine_neither_names_nor_takes_away_an_owner() -> None:
    assert new_owner(pod(2, owner="bob"), pod(1, owner="alice"), ROBOT) == "alice"
    assert new_owner(pod(2), pod(1, owner="alice"), ROBOT) == "alice"


@pytest.mark.parametrize(
    "annotations", [None, {}, {"a": "b"}, {OWNER: "bob"}, {OWNER: "bob", "a": "b"}]
)
@pytest.mark.parametrize("path", [(), ("spec", "template")])
def test_a_stamp_makes_it_say_its_owner(
    annotations: dict[str, str] | None, path: tuple[str, ...]
) -> None:
    inner = {"metadata": {} if annotations is None else {"annotations": annotations}}
    whole = inner if not path else {"spec": {"template": inner}}

    patched = json_patch(whole, stamp(path, inner, "alice"))

    found = patched if not path else patched["spec"]["template"]
    assert found["metadata"]["annotations"] == {**(annotations or {}), OWNER: "alice"}


def test_a_template_without_metadata_gets_some() -> None:
    patched = json_patch({"spec": {"template": {"spec": {}}}}, stamp(("spec", "template"), {}, "a"))

    assert patched["spec"]["template"]["metadata"] == {"annotations": {OWNER: "a"}}


def test_an_owner_is_taken_away() -> None:
    forged = {"metadata": {"annotations": {OWNER: "bob", "a": "b"}}}

    assert json_patch(forged, stamp((), forged, ""))["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("reported", ["", "alice"])
def test_what_says_it_already_is_left_alone(reported: str) -> None:
    assert stamp((), pod(owner=reported), reported) == []


def test_an_owner_that_is_no_text_is_replaced() -> None:
    odd = {"metadata": {"annotations": {OWNER: 7}}}

    assert owner_label(odd) == ""
    assert json_patch(odd, stamp((), odd, ""))["metadata"]["annotations"] == {}
    assert json_patch(odd, stamp((), odd, "a"))["metadata"]["annotations"] == {OWNER: "a"}


def test_a_slash_and_a_tilde_in_a_key_are_spelled_as_a_pointer() -> None:
    (operation,) = stamp(("a/b", "c~d"), {"metadata": {"annotations": {"x": "y"}}}, "alice")

    assert operation["path"] == "/a~1b/c~0d/metadata/annotations/gpu-ledger.io~1owner"


def test_templates_are_matched_by_their_place() -> None:
    (new,) = templates_of("batch", "Job", job(2))

    assert old_template(new, templates_of("batch", "Job", job(1))) == job(1)["spec"]["template"]
    assert old_template(new, ()) is None
