"""What an API server is reported to ask us."""

import base64
import json
from typing import Any

import pytest
import yaml

from quotas.domain.admission.match_conditions import gpu_expression
from quotas.domain.admission.webhook_configuration import (
    Registration,
    configurations,
    selector_patch,
    yaml_of,
)
from simulator.kubernetes_api.patches import json_patch

JSON = dict[str, Any]
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def registered(**changes: object) -> tuple[JSON, JSON]:
    fields: JSON = {"cluster": "hopper", "authority_pem": PEM, "service": "gpu/ledger", **changes}
    return configurations(Registration(**fields))


def by_name(configuration: JSON) -> dict[str, JSON]:
    return {one["name"].partition(".")[0]: one for one in configuration["webhooks"]}


def test_one_mutates_and_one_validates() -> None:
    mutating, validating = registered()

    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    assert mutating["metadata"]["name"] == validating["metadata"]["name"] == "gpu-ledger-hopper"
    assert list(by_name(mutating)) == ["owner", "owner-templates"]
    assert list(by_name(validating)) == ["pods", "claims", "workloads"]


def test_each_is_asked_at_its_own_endpoint() -> None:
    mutating, validating = registered()
    paths = {
        one["name"].partition(".")[0]: one["clientConfig"]["service"]["path"]
        for configuration in (mutating, validating)
        for one in configuration["webhooks"]
    }

    assert paths == {
        "owner": "/stamp/hopper",
        "owner-templates": "/stamp/hopper",
        "pods": "/admit/hopper/pods",
        "claims": "/admit/hopper/pods",
        "workloads": "/warn/hopper",
    }


def test_a_service_or_an_address_is_where_it_is_reached() -> None:
    service = by_name(registered(port=443)[1])["pods"]["clientConfig"]
    url = by_name(registered(service="", url="https://gpu.test:8443")[1])["pods"]["clientConfig"]

    assert service["service"] == {
        "namespace": "gpu",
        "name": "ledger",
        "path": "/admit/hopper/pods",
        "port": 443,
    }
    assert base64.b64decode(service["caBundle"]).decode() == PEM
    assert url["url"] == "https://gpu.test:8443/admit/hopper/pods"
    assert "service" not in url


def test_own_namespaces_and_the_control_planes_are_excluded() -> None:
    for configuration in registered(own_namespaces=("monitoring",)):
        for webhook in configuration["webhooks"]:
            assert webhook["namespaceSelector"]["matchExpressions"] == [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": [
                        "gpu",
                        "kube-node-lease",
                        "kube-public",
                        "kube-system",
                        "monitoring",
                    ],
                }
            ]


def selected(**changes: object) -> set[str]:
    return {
        json.dumps(webhook["namespaceSelector"]["matchExpressions"][-1])
        for configuration in registered(**changes)
        for webhook in configuration["webhooks"]
    }


def test_where_other_namespaces_are_free_only_those_of_projects_are_asked_about() -> None:
    key = "kubernetes.io/metadata.name"
    bound = {"key": key, "operator": "In", "values": ["lab", "team"]}
    none = {"key": key, "operator": "DoesNotExist"}

    assert selected(bound=("team", "lab", "team")) == {json.dumps(bound)}
    assert selected(bound=()) == {json.dumps(none)}


def test_without_a_service_the_namespace_of_the_installation_is_excluded() -> None:
    (selector,) = selected(service="", url="https://gpu.test")

    assert json.loads(selector)["values"] == [
        "gpu-ledger",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]


def test_what_counts_says_so_and_fails_as_the_cluster_wants() -> None:
    for policy in ("Fail", "Ignore"):
        webhooks = by_name(registered(failure_policy=policy)[1])

        assert webhooks["pods"]["failurePolicy"] == policy
        assert webhooks["pods"]["sideEffects"] == "NoneOnDryRun"
        assert webhooks["claims"]["sideEffects"] == "NoneOnDryRun"
        assert webhooks["pods"]["timeoutSeconds"] == 5
        assert webhooks["pods"]["matchPolicy"] == "Equivalent"
        assert webhooks["pods"]["admissionReviewVersions"] == ["v1"]
        assert webhooks["workloads"]["failurePolicy"] == "Ignore"
        assert webhooks["workloads"]["sideEffects"] == "None"


def test_pods_are_asked_about_when_they_come_and_when_they_change() -> None:
    mutating, validating = registered()
    (rule,) = by_name(validating)["pods"]["rules"]
    (stamped,) = by_name(mutating)["owner"]["rules"]

    assert rule["resources"] == ["pods", "pods/ephemeralcontainers"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    assert stamped["operations"] == ["CREATE"]
    (claims,) = by_name(validating)["claims"]["rules"]
    assert claims["operations"] == ["CREATE", "UPDATE"]


def test_every_kind_that_makes_pods_is_asked_about() -> None:
    rules = by_name(registered()[1])["workloads"]["rules"]

    assert {rule["apiGroups"][0]: rule["resources"] for rule in rules} == {
        "batch": ["cronjobs", "jobs"],
        "": ["replicationcontrollers"],
        "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
        "kubeflow.org": ["mpijobs", "notebooks", "pytorchjobs"],
        "ray.io": ["rayclusters", "rayjobs"],
        "jobset.x-k8s.io": ["jobsets"],
    }


def test_conditions_narrow_what_is_asked_and_can_be_left_out() -> None:
    with_conditions = by_name(registered()[1])
    without = by_name(registered(has_conditions=False)[1])

    for name in ("pods", "claims", "workloads"):
        assert [one["name"] for one in with_conditions[name]["matchConditions"]] == ["gpus"]
        assert "matchConditions" not in without[name]


@pytest.mark.parametrize(
    "part",
    [
        " && object.spec.initContainers.exists(c,",
        " && object.spec.containers.exists(c,",
        "has(object.spec.ephemeralContainers)",
        "c.resources.limits.exists(k, k.startsWith('nvidia.com/')",
        "c.resources.requests.exists(k, k.startsWith('nvidia.com/')",
        "k.startsWith('deviceclass.resource.kubernetes.io/')",
        "k == 'example.com/gpu'",
        "e.name == 'NVIDIA_VISIBLE_DEVICES'",
        "has(object.spec.resourceClaims)",
        "v.hostPath.path.contains('dev') || v.hostPath.path.matches('^[/.]*$')",
        "object.spec.runtimeClassName.startsWith('nvidia')",
        "k == 'gpu-ledger.io/owner'",
        "k.startsWith('cdi.k8s.io/')",
    ],
)
def test_the_condition_looks_wherever_a_gpu_may_hide(part: str) -> None:
    assert part in gpu_expression(("example.com/gpu", "nvidia.com/gpu"))


def test_the_condition_is_balanced_and_quotes_names() -> None:
    expression = gpu_expression(("it's",))

    assert expression.count("(") == expression.count(")")
    assert r"k == 'it\'s'" in expression


def test_the_yaml_says_the_same() -> None:
    both = registered()

    assert tuple(yaml.safe_load_all(yaml_of(both))) == both


def test_the_yaml_of_odd_values_is_read_back() -> None:
    odd = {"a": [], "b": {}, "c": ["x: y", "#", "-", "yes", [1, [2]], {"d": None}], "e": True}

    assert tuple(yaml.safe_load_all(yaml_of((odd,)))) == (odd,)


def live(**fields: object) -> JSON:
    """Return the printed validating configuration as an API server returns it."""
    configuration = registered(**fields)[1]
    return {**configuration, "metadata": {**configuration["metadata"], "resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("applied", "bound"),
    [(("a",), ("b", "a")), ((), ("a",)), (("b", "a"), ()), (("c",), ("a",))],
)
def test_a_selector_that_names_namespaces_is_brought_up_to_the_bound_ones(
    applied: tuple[str, ...], bound: tuple[str, ...]
) -> None:
    configuration = live(bound=applied)

    guard, *replaced = selector_patch(configuration, bound)

    assert guard == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert json_patch(configuration, [guard, *replaced]) == live(bound=bound)
    assert len(replaced) == len(configuration["webhooks"])
    assert selector_patch(live(bound=bound), reversed(bound)) == ()


def test_a_selector_that_names_none_is_left_as_it_is() -> None:
    assert selector_patch(live(), ("a",)) == ()
    assert selector_patch({}, ("a",)) == ()


def test_a_selector_by_other_labels_is_left_as_it_is() -> None:
    configuration = live()
    expressions = configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    expressions.append({"key": "team", "operator": "In", "values": ["a"]})

    assert selector_patch(configuration, ("b",)) == ()
