"""What the webhooks that a cluster has leave unasked, and in which namespaces nothing is."""

import copy
from typing import Any

import pytest

from quotas.domain.admission.webhook_configuration import Registration, configurations
from quotas.domain.enforcement.coverage import WebhookCoverage, find_coverage

JSON = dict[str, Any]
OFFERED = ("nvidia.com/gpu", "example.com/tpu")
CONTROL_PLANE = {"kube-node-lease", "kube-public", "kube-system", "gpu-ledger"}


def webhooks_of(**changes: Any) -> list[JSON]:  # noqa: ANN401 - Attributes of a registration.
    """Return the printed webhooks as an API server returns them, with its defaults."""
    given = {"service": "gpu-ledger/admission", "offered": OFFERED, **changes}
    printed = configurations(Registration(cluster="hopper", authority_pem="", **given))[1]
    return [{**copy.deepcopy(one), "objectSelector": {}} for one in printed["webhooks"]]


def coverage(webhooks: list[JSON], offered: tuple[str, ...] = OFFERED) -> WebhookCoverage:
    return find_coverage(webhooks, cluster="hopper", offered=offered)


def test_what_is_printed_covers_all_but_the_namespaces_it_excludes() -> None:
    found = coverage(webhooks_of(own_namespaces=("monitoring",)))

    assert found == WebhookCoverage(excluded=frozenset({*CONTROL_PLANE, "monitoring"}))
    assert found.covers("team-llm")
    assert not found.covers("monitoring")


def test_namespaces_that_are_named_are_the_only_ones_covered() -> None:
    found = coverage(webhooks_of(bound=("team-llm", "team-vision")))

    assert found.included == frozenset({"team-llm", "team-vision"})
    assert found.covers("team-llm")
    assert not found.covers("team-other")


def test_a_server_without_conditions_asks_about_everything() -> None:
    assert coverage(webhooks_of(has_conditions=False)).covers("team-llm")


def test_a_service_outside_the_cluster_covers_as_well() -> None:
    assert coverage(webhooks_of(service="", url="https://gpu.example.test/gate")).covers("team-llm")


def test_a_cluster_without_webhooks_covers_nothing() -> None:
    found = coverage([])

    assert found.problem == "The cluster has no webhook pods.gpu-ledger.io."
    assert not found.covers("team-llm")


def test_a_missing_webhook_of_claims_leaves_claims_unasked() -> None:
    webhooks = [one for one in webhooks_of() if one["name"] != "claims.gpu-ledger.io"]

    assert coverage(webhooks).problem == "The cluster has no webhook claims.gpu-ledger.io."


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"failurePolicy": "Ignore"}, "failurePolicy is not Fail."),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "it has an objectSelector."),
        ({"matchPolicy": "Exact"}, "matchPolicy is not Equivalent."),
        (
            {"matchConditions": [{"name": "gpus", "expression": "false"}]},
            "matchConditions are not those of the offered resources; print and apply it again.",
        ),
        ({"rules": []}, "its rules leave out pods or claims; print and apply it again."),
        (
            {"clientConfig": {"url": "https://other.example.test/admit/ampere/pods"}},
            "it does not call /admit/hopper/pods.",
        ),
    ],
    ids=["ignore", "objects", "exact", "conditions", "rules", "elsewhere"],
)
@pytest.mark.parametrize("number", [0, 1])
def test_a_webhook_that_can_leave_something_unasked_covers_nothing(
    number: int, change: JSON, problem: str
) -> None:
    webhooks = webhooks_of()
    webhooks[number] |= change

    found = coverage(webhooks)

    assert found.problem == f"{webhooks[number]['name']}: {problem}"
    assert not found.covers("team-llm")


@pytest.mark.parametrize(
    ("narrowed", "is_covered"),
    [
        ({"operations": ["UPDATE"]}, False),
        ({"resources": ["pods/ephemeralcontainers"]}, False),
        ({"scope": "Cluster"}, False),
        ({"operations": ["*"], "resources": ["*"], "scope": "*"}, True),
    ],
    ids=["operations", "resources", "scope", "everything"],
)
def test_a_rule_must_ask_about_all_that_is_printed(narrowed: JSON, is_covered: bool) -> None:  # noqa: FBT001 - A case.
    webhooks = webhooks_of()
    webhooks[0]["rules"][0] |= narrowed

    assert coverage(webhooks).covers("team-llm") == is_covered


def test_a_resource_that_was_offered_later_is_not_covered() -> None:
    assert not coverage(webhooks_of(offered=("nvidia.com/gpu",))).covers("team-llm")


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"team": "a"}},
        {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]},
    ],
    ids=["labels", "operators"],
)
def test_a_selector_that_does_not_name_namespaces_covers_nothing(selector: JSON) -> None:
    webhooks = webhooks_of()
    webhooks[1]["namespaceSelector"] = selector

    assert coverage(webhooks).problem == "namespaceSelector selects by more than names."


def test_a_selector_of_no_namespace_covers_none() -> None:
    assert not coverage(webhooks_of(bound=())).covers("team-llm")


def test_a_coverage_is_within_another_that_leaves_out_no_more() -> None:
    wide = WebhookCoverage(excluded=frozenset({"a"}))
    narrow = WebhookCoverage(excluded=frozenset({"a", "b"}))
    named = WebhookCoverage(included=frozenset({"c", "d"}))
    nothing = WebhookCoverage(problem="The cluster has no webhook.")

    assert [narrow.is_within(wide), named.is_within(wide), nothing.is_within(wide)] == [True] * 3
    assert [wide.is_within(narrow), wide.is_within(named), wide.is_within(nothing)] == [False] * 3
    assert not WebhookCoverage(included=frozenset({"c", "e"})).is_within(named)
