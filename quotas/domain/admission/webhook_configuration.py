"""Webhook configurations: the Kubernetes objects that register this service's webhooks.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quotas.domain.admission.match_conditions import (
    claim_expression,
    gpu_expression,
    template_expression,
)
from quotas.domain.admission.secrets import path_with_secret
from quotas.domain.admission.workload_templates import KINDS

JSON = dict[str, Any]
API_VERSION: Final = "admissionregistration.k8s.io/v1"
DOMAIN: Final = "gpu-ledger.io"
CONTROL_PLANE: Final = ("kube-node-lease", "kube-public", "kube-system")
"""Namespaces whose pods a cluster needs to run at all."""
OWN_NAMESPACE: Final = "gpu-ledger"
"""Where this service is installed; excluded where no Service names another namespace."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"
TIMEOUT_SECONDS: Final = 5
DRA_VERSIONS: Final = ("v1", "v1beta1", "v1beta2")


@dataclass(frozen=True)
class Registration:
    """Webhook settings of one cluster.

    Attributes:
        cluster: Slug.
        authority_pem: Certificates that sign the server's own, PEM.
        service: "namespace/name" of a Service in the cluster; "" where `url` is set.
        url: Where else the server is, https without a slash at the end; "" for a Service.
        failure_policy: "Fail" or "Ignore".
        own_namespaces: Excluded namespaces beside the control plane's and the Service's.
        bound: Namespaces of projects, which alone are asked about; None to ask about all.
        offered: GPU resource names beside NVIDIA's.
        has_conditions: Whether the server supports matchConditions (1.28 and later).
        secret: Proves the cluster where its API server has no certificate; "" where it has.
    """

    cluster: str
    authority_pem: str
    service: str = ""
    url: str = ""
    failure_policy: str = "Fail"
    own_namespaces: tuple[str, ...] = ()
    bound: tuple[str, ...] | None = None
    offered: tuple[str, ...] = ()
    has_conditions: bool = True
    secret: str = ""
    port: int = 8443
    timeout_seconds: int = TIMEOUT_SECONDS


def configurations(registration: Registration) -> tuple[JSON, JSON]:
    """Return the mutating and the validating configuration."""
    return (
        _configuration(registration, "Mutating", tuple(_mutating(registration))),
        _configuration(registration, "Validating", tuple(_validating(registration))),
    )


def configuration_name(cluster: str) -> str:
    """Return the name of both configurations of a cluster, by its slug."""
    return f"gpu-ledger-{cluster}"


def _configuration(registration: Registration, kind: str, webhooks: tuple[JSON, ...]) -> JSON:
    return {
        "apiVersion": API_VERSION,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {
            "name": configuration_name(registration.cluster),
            "labels": {"app.kubernetes.io/managed-by": "gpu-ledger"},
        },
        "webhooks": list(webhooks),
    }


def _mutating(registration: Registration) -> Iterator[JSON]:
    yield _webhook(
        registration,
        "owner",
        f"/stamp/{registration.cluster}",
        [_rule("", ["v1"], ["pods"], ["CREATE"])],
        condition=gpu_expression(registration.offered),
        # Changes by other webhooks to a pod with GPUs are seen too. A pod that gets its first GPU
        # from a later webhook is seen only by the validating webhook, and belongs to the default
        # owner.
        reinvocationPolicy="IfNeeded",
    )
    yield _webhook(
        registration,
        "owner-templates",
        f"/stamp/{registration.cluster}",
        list(_workload_rules()),
        condition=template_expression(registration.offered),
    )


def _validating(registration: Registration) -> Iterator[JSON]:
    path = f"/admit/{registration.cluster}/pods"
    pods = ["pods", "pods/ephemeralcontainers"]
    yield _webhook(
        registration,
        "pods",
        path,
        [_rule("", ["v1"], pods, ["CREATE", "UPDATE"])],
        condition=gpu_expression(registration.offered),
        sideEffects="NoneOnDryRun",
    )
    yield _webhook(
        registration,
        "claims",
        path,
        [_rule("resource.k8s.io", list(DRA_VERSIONS), ["resourceclaims"], ["CREATE", "UPDATE"])],
        condition=claim_expression(),
        sideEffects="NoneOnDryRun",
    )
    yield _webhook(
        registration,
        "workloads",
        f"/warn/{registration.cluster}",
        list(_workload_rules()),
        condition=template_expression(registration.offered),
        # A failure of this warning blocks no request; the pods are reviewed in any case.
        failurePolicy="Ignore",
    )


def _webhook(
    registration: Registration,
    name: str,
    path: str,
    rules: list[JSON],
    *,
    condition: str,
    **more: object,
) -> JSON:
    webhook = {
        "name": f"{name}.{DOMAIN}",
        "clientConfig": _client(registration, path),
        "rules": rules,
        "namespaceSelector": _namespaces(registration),
        "failurePolicy": registration.failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": registration.timeout_seconds,
        "admissionReviewVersions": ["v1"],
        **more,
    }
    if registration.has_conditions:
        webhook["matchConditions"] = [{"name": "gpus", "expression": condition}]
    return webhook


def _client(registration: Registration, path: str) -> JSON:
    if registration.secret:
        path = path_with_secret(registration.secret, path)
    bundle = base64.b64encode(registration.authority_pem.encode()).decode()
    if registration.url:
        return {"url": registration.url + path, "caBundle": bundle}
    namespace, _, name = registration.service.partition("/")
    service = {"namespace": namespace, "name": name, "path": path, "port": registration.port}
    return {"service": service, "caBundle": bundle}


def _namespaces(registration: Registration) -> JSON:
    """Return a selector without the namespaces that the webhook and the cluster depend on."""
    excluded = sorted({*CONTROL_PLANE, *registration.own_namespaces, _own_namespace(registration)})
    selected: list[JSON] = [{"key": NAME_LABEL, "operator": "NotIn", "values": excluded}]
    if registration.bound is not None:
        selected.append(_only(registration.bound))
    return {"matchExpressions": selected}


def _only(bound: Iterable[str]) -> JSON:
    """Return an expression that selects these namespaces and no other."""
    if names := sorted(set(bound)):
        return {"key": NAME_LABEL, "operator": "In", "values": names}
    # Every namespace has the label, so this selects none; `In` takes no empty list.
    return {"key": NAME_LABEL, "operator": "DoesNotExist"}


def selected_namespaces(configuration: JSON) -> frozenset[str] | None:
    """Return the namespaces that an applied configuration reviews; None where it names none."""
    selected: frozenset[str] | None = None
    for webhook in configuration.get("webhooks") or ():
        for one in filter(_names_namespaces, _expressions(webhook)):
            named = frozenset(one.get("values") or ())
            selected = named if selected is None else selected & named
    return selected


def selector_patch(configuration: JSON, bound: Iterable[str]) -> tuple[JSON, ...]:
    """Return a JSON patch by which an applied configuration names these namespaces alone.

    It fails on any other version of the configuration. It is empty where nothing is to be changed,
    as in a configuration that names no namespace.

    Args:
        configuration: As the API server returned it.
        bound: Namespaces of projects.
    """
    wanted = _only(bound)
    replaced = tuple(
        {
            "op": "replace",
            "path": f"/webhooks/{index}/namespaceSelector/matchExpressions/{position}",
            "value": wanted,
        }
        for index, webhook in enumerate(configuration.get("webhooks") or ())
        for position, one in enumerate(_expressions(webhook))
        if _names_namespaces(one) and _only_of(one) != wanted
    )
    version = configuration["metadata"]["resourceVersion"] if replaced else ""
    guard = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    return (guard, *replaced) if replaced else ()


def _expressions(webhook: JSON) -> list[JSON]:
    found: list[JSON] = (webhook.get("namespaceSelector") or {}).get("matchExpressions") or []
    return found


def _names_namespaces(expression: JSON) -> bool:
    return expression["key"] == NAME_LABEL and expression["operator"] in {"In", "DoesNotExist"}


def _only_of(expression: JSON) -> JSON:
    """Return an expression that names namespaces as it is printed."""
    return _only(expression.get("values") or ())


def _own_namespace(registration: Registration) -> str:
    return registration.service.partition("/")[0] or OWN_NAMESPACE


def _rule(group: str, versions: list[str], resources: list[str], operations: list[str]) -> JSON:
    return {
        "apiGroups": [group],
        "apiVersions": versions,
        "resources": resources,
        "operations": operations,
        "scope": "Namespaced",
    }


def _workload_rules() -> Iterator[JSON]:
    plurals: dict[str, list[str]] = {}
    for kind in KINDS.values():
        plurals.setdefault(kind.group, []).append(kind.plural)
    for group, names in plurals.items():
        yield _rule(group, ["*"], sorted(names), ["CREATE", "UPDATE"])


def yaml_of(documents: tuple[JSON, ...]) -> str:
    """Return objects as YAML, one document each; every text is quoted, as JSON does it."""
    return "".join("---\n" + "\n".join(_lines(document, 0)) + "\n" for document in documents)


def _lines(value: object, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if _is_nested(entry):
                yield f"{pad}{key}:"
                yield from _lines(entry, depth + 1)
            else:
                yield f"{pad}{key}: {json.dumps(entry)}"
        return
    for entry in value if isinstance(value, list) else []:
        if _is_nested(entry):
            first, *rest = _lines(entry, depth + 1)
            yield f"{pad}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{pad}- {json.dumps(entry)}"


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | list) and bool(value)
