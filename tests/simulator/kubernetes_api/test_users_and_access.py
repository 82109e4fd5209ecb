"""Who asks and what they may: certificates, tokens, roles by user, group and account."""

from pathlib import Path
from typing import Any

import pytest

from simulator.kubernetes_api.access import (
    ANONYMOUS,
    CLIENT_NAME,
    User,
    make_identity,
    parse_request,
    refuse_without_right,
    service_account,
)
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
)
from simulator.kubernetes_api.store import ObjectStore

ALICE = User("alice", groups=("team", "system:authenticated"))
ACCOUNT = service_account("ns", "reader", uid="u")


def is_allowed(store: ObjectStore, user: User, method: str, target: str) -> bool:
    try:
        refuse_without_right(store, user, parse_request(method, target))
    except StatusError:
        return False
    return True


def bind(store: ObjectStore, subject: dict[str, str], *rules: dict[str, Any]) -> None:
    metadata = {"name": "r"}
    store.put(CLUSTER_ROLES, ("", "r"), {"metadata": metadata, "rules": list(rules)})
    reference = {"kind": "ClusterRole", "name": "r"}
    store.put(
        CLUSTER_ROLE_BINDINGS,
        ("", "r"),
        {"metadata": metadata, "roleRef": reference, "subjects": [subject]},
    )


def rule(*verbs: str, resources: tuple[str, ...] = ("pods",), **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON.
    return {"apiGroups": [""], "resources": list(resources), "verbs": list(verbs), **more}


def test_an_identity_may_be_for_another_name(tmp_path: Path) -> None:
    identity = make_identity(tmp_path, host="hooks.example.com")

    assert identity.client_key_path.stat().st_mode & 0o777 == 0o600
    assert CLIENT_NAME == "certified-admin"


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "User", "name": "alice"}, ALICE),
        ({"kind": "Group", "name": "team"}, ALICE),
        ({"kind": "ServiceAccount", "name": "reader", "namespace": "ns"}, ACCOUNT),
    ],
)
def test_a_binding_means_users_groups_and_accounts(subject: dict[str, str], user: User) -> None:
    store = ObjectStore()
    bind(store, subject, rule("list"))

    assert is_allowed(store, user, "GET", "/api/v1/pods")
    assert not is_allowed(store, user, "GET", "/api/v1/pods?watch=1")
    assert not is_allowed(store, User("bob"), "GET", "/api/v1/pods")


@pytest.mark.parametrize(
    ("given", "method", "target"),
    [
        (rule("*"), "DELETE", "/api/v1/namespaces/a/pods/x"),
        (rule("*"), "DELETE", "/api/v1/namespaces/a/pods"),
        (rule("get", resources=("*",)), "GET", "/api/v1/namespaces/a/pods/x/status"),
        (rule("patch", resources=("pods/status",)), "PATCH", "/api/v1/namespaces/a/pods/x/status"),
        (rule("get", resourceNames=["x"]), "GET", "/api/v1/namespaces/a/pods/x"),
        (rule("get", resources=("namespaces",)), "GET", "/api/v1/namespaces/a"),
        (
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
            "POST",
            "/apis/batch/v1/namespaces/a/jobs",
        ),
    ],
)
def test_what_a_rule_allows(given: dict[str, Any], method: str, target: str) -> None:
    store = ObjectStore()
    bind(store, {"kind": "User", "name": "alice"}, given)

    assert is_allowed(store, ALICE, method, target)


@pytest.mark.parametrize(
    ("given", "method", "target"),
    [
        (rule("patch"), "PATCH", "/api/v1/namespaces/a/pods/x/status"),
        (rule("get", resourceNames=["x"]), "GET", "/api/v1/namespaces/a/pods/y"),
        (rule("get"), "GET", "/apis/batch/v1/namespaces/a/jobs/x"),
        (rule("create"), "POST", "/api/v1/namespaces/a/pods/x/eviction"),
        (rule("*", resources=("*",)), "POST", "/metrics"),
    ],
)
def test_what_a_rule_does_not_allow(given: dict[str, Any], method: str, target: str) -> None:
    store = ObjectStore()
    bind(store, {"kind": "User", "name": "alice"}, given)

    assert not is_allowed(store, ALICE, method, target)


def test_a_role_of_a_namespace_ends_at_its_border() -> None:
    store = ObjectStore()
    metadata = {"name": "r", "namespace": "a"}
    store.put(ROLES, ("a", "r"), {"metadata": metadata, "rules": [rule("list")]})
    reference = {"kind": "Role", "name": "r"}
    subjects = [{"kind": "ServiceAccount", "name": "reader"}]
    store.put(
        ROLE_BINDINGS,
        ("a", "r"),
        {"metadata": metadata, "roleRef": reference, "subjects": subjects},
    )
    # Without a namespace the subject is an account of the binding's own.
    own = service_account("a", "reader", uid="u")

    assert is_allowed(store, own, "GET", "/api/v1/namespaces/a/pods")
    assert not is_allowed(store, own, "GET", "/api/v1/namespaces/b/pods")
    assert not is_allowed(store, own, "GET", "/api/v1/pods")
    assert not is_allowed(store, ACCOUNT, "GET", "/api/v1/namespaces/a/pods")


def test_a_binding_of_a_role_that_is_not_there_allows_nothing() -> None:
    store = ObjectStore()
    bind(store, {"kind": "User", "name": "alice"}, rule("list"))
    store.remove(CLUSTER_ROLES, ("", "r"))

    assert not is_allowed(store, ALICE, "GET", "/api/v1/pods")


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/batch/v1", "/version"])
def test_everybody_known_may_discover(path: str) -> None:
    assert is_allowed(ObjectStore(), ALICE, "GET", path)
    assert not is_allowed(ObjectStore(), ALICE, "POST", path)
    assert is_allowed(ObjectStore(), ANONYMOUS, "GET", path) is (path == "/version")


def test_a_refusal_names_user_verb_and_place() -> None:
    with pytest.raises(StatusError) as caught:
        refuse_without_right(
            ObjectStore(),
            ALICE,
            parse_request("PATCH", "/apis/batch/v1/namespaces/a/jobs/x/status"),
        )

    assert caught.value.body["message"] == (
        'jobs.batch "x" is forbidden: User "alice" cannot patch resource "jobs/status" in API'
        ' group "batch" in the namespace "a"'
    )
    assert caught.value.body["details"] == {"name": "x", "group": "batch", "kind": "jobs"}


def test_a_refused_path_is_reported_as_a_path() -> None:
    with pytest.raises(StatusError) as caught:
        refuse_without_right(ObjectStore(), ALICE, parse_request("GET", "/metrics"))

    assert caught.value.body["message"] == 'forbidden: User "alice" cannot get path "/metrics"'
