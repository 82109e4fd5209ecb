"""The access that preemption asks for: suspending Jobs and evicting pods, and never deleting."""

from tests.deploy.files import ROOT, documents_of

MANIFEST = ROOT / "deploy" / "kubernetes" / "preemption-rbac.yaml"


def test_the_role_reads_suspends_and_evicts_and_nothing_else() -> None:
    role, binding = documents_of(MANIFEST.read_text("utf-8"))

    assert role["rules"] == [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_it_is_the_enforcers_account_that_may() -> None:
    enforcer = documents_of(MANIFEST.with_name("enforcer-rbac.yaml").read_text("utf-8"))
    (account,) = (one["metadata"] for one in enforcer if one["kind"] == "ServiceAccount")
    _, binding = documents_of(MANIFEST.read_text("utf-8"))

    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
