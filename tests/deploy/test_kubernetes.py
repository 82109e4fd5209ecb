"""The access we ask of a cluster's administrator: enough for the enforcer, and nothing more."""

import ast
from typing import Any

import yaml

from tests.deploy.files import ROOT

MANIFEST = ROOT / "deploy" / "kubernetes" / "enforcer-rbac.yaml"
ADAPTER = ROOT / "quotas" / "adapters" / "kubernetes.py"
VERBS = {"read": {"get"}, "patch": {"create", "patch"}}
"""What a call of the client needs; server-side apply creates what is not there."""


def documents() -> dict[str, dict[str, Any]]:
    """Return the manifest's objects by kind."""
    found = [dict(each) for each in yaml.safe_load_all(MANIFEST.read_text("utf-8"))]
    return {each["kind"]: each for each in found}


def called_methods() -> set[str]:
    """Return the names of the client's methods the adapter calls."""
    tree = ast.parse(ADAPTER.read_text("utf-8"))
    return {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and "_namespaced_" in node.func.attr
    }


def test_the_role_allows_what_the_adapter_calls_and_nothing_else() -> None:
    (rule,) = documents()["ClusterRole"]["rules"]
    calls = {tuple(name.split("_namespaced_")) for name in called_methods()}

    assert {resource for _, resource in calls} == {"resource_quota"}
    assert rule == {
        "apiGroups": [""],
        "resources": ["resourcequotas"],
        "verbs": ["get", "create", "patch"],
    }
    assert set(rule["verbs"]) == set().union(*(VERBS[verb] for verb, _ in calls))


def test_the_role_is_bound_to_the_one_account_of_the_file() -> None:
    found = documents()
    account, binding = found["ServiceAccount"], found["ClusterRoleBinding"]

    assert set(found) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": found["ClusterRole"]["metadata"]["name"],
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    assert account["automountServiceAccountToken"] is False
