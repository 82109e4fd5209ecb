"""Webhook configurations: the Kubernetes objects that register this service's webhooks.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quotas.domain.admission.hidden_gpus import CONTAINER_LISTS, RUNTIME_PREFIX, VISIBLE_DEVICES
from quotas.domain.admission.pods import CLASS_PREFIX, OWNER_ANNOTATION
from quotas.domain.admission.workload_templates import KINDS

JSON = dict[str, Any]
API_VERSION: Final = "admissionregistration.k8s.io/v1"
DOMAIN: Final = "gpu-ledger.io"
GPU_PREFIX: Final = "nvidia.com/"
KUBE_SYSTEM: Final = "kube-system"
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
        own_namespaces: Excluded namespaces: the service's own.
        offered: GPU resource names beside NVIDIA's.
        has_conditions: Whether the server supports matchConditions (1.28 and later).
    """

    cluster: str
    authority_pem: str
    service: str = ""
    url: str = ""
    failure_policy: str = "Fail"
    own_namespaces: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    has_conditions: bool = True
    port: int = 8443
    timeout_seconds: int = TIMEOUT_SECONDS


def configurations(registration: Registration) -> tuple[JSON, JSON]:
    """Return the mutating and the validating configuration."""
    return (
        _configuration(registration, "Mutating", tuple(_mutating(registration))),
        _configuration(registration, "Validating", tuple(_validating(registration))),
    )


def _configuration(registration: Registration, kind: str, webhooks: tuple[JSON, ...]) -> JSON:
    return {
        "apiVersion": API_VERSION,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {
            "name": f"gpu-ledger-{registration.cluster}",
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
        conditions=_pod_conditions(registration),
        # Changes by other webhooks to a pod with GPUs are seen too. A pod that gets its first GPU
        # from a later webhook is seen only by the validating webhook, and belongs to the default
        # owner.
        reinvocationPolicy="IfNeeded",
    )
    yield _webhook(
        registration, "owner-templates", f"/stamp/{registration.cluster}", list(_workload_rules())
    )


def _validating(registration: Registration) -> Iterator[JSON]:
    path = f"/admit/{registration.cluster}/pods"
    pods = ["pods", "pods/ephemeralcontainers"]
    yield _webhook(
        registration,
        "pods",
        path,
        [_rule("", ["v1"], pods, ["CREATE", "UPDATE"])],
        conditions=_pod_conditions(registration),
        sideEffects="NoneOnDryRun",
    )
    yield _webhook(
        registration,
        "claims",
        path,
        [_rule("resource.k8s.io", list(DRA_VERSIONS), ["resourceclaims"], ["CREATE", "UPDATE"])],
        sideEffects="NoneOnDryRun",
    )
    yield _webhook(
        registration,
        "workloads",
        f"/warn/{registration.cluster}",
        list(_workload_rules()),
        # A failure of this warning blocks no request; the pods are reviewed in any case.
        failurePolicy="Ignore",
    )


def _webhook(
    registration: Registration,
    name: str,
    path: str,
    rules: list[JSON],
    *,
    conditions: tuple[JSON, ...] = (),
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
    if conditions and registration.has_conditions:
        webhook["matchConditions"] = list(conditions)
    return webhook


def _client(registration: Registration, path: str) -> JSON:
    bundle = base64.b64encode(registration.authority_pem.encode()).decode()
    if registration.url:
        return {"url": registration.url + path, "caBundle": bundle}
    namespace, _, name = registration.service.partition("/")
    service = {"namespace": namespace, "name": name, "path": path, "port": registration.port}
    return {"service": service, "caBundle": bundle}


def _namespaces(registration: Registration) -> JSON:
    """Return a selector of all namespaces but those whose pods the webhook itself depends on."""
    namespace = registration.service.partition("/")[0]
    excluded = sorted({KUBE_SYSTEM, *registration.own_namespaces, namespace} - {""})
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": excluded}]}


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


def _pod_conditions(registration: Registration) -> tuple[JSON, ...]:
    return ({"name": "gpus", "expression": gpu_expression(registration.offered)},)


def gpu_expression(offered: tuple[str, ...] = ()) -> str:
    """Return CEL that holds for pods that have to do with GPUs, openly or not.

    Args:
        offered: GPU resource names beside NVIDIA's.
    """
    # What is requested openly comes first: an API server stops at the first part that holds, and
    # gives up on an expression that costs too much, as a pod with 200,000 variables makes it.
    parts = [_some_container(name, _asks(offered)) for name in CONTAINER_LISTS]
    parts.append("has(object.spec.resourceClaims)")
    parts.append(
        "(has(object.spec.runtimeClassName)"
        f" && object.spec.runtimeClassName.startsWith({_quoted(RUNTIME_PREFIX)}))"
    )
    parts.append(
        "(has(object.metadata.annotations) && object.metadata.annotations.exists(k,"
        f" k == {_quoted(OWNER_ANNOTATION)} || k.startsWith('cdi.k8s.io/')))"
    )
    # Whatever may lie in or above the folder of devices: more is asked about than is refused.
    parts.append(
        "(has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath)"
        " && (v.hostPath.path.contains('dev') || v.hostPath.path.matches('^[/.]*$'))))"
    )
    shows = f"has(c.env) && c.env.exists(e, e.name == {_quoted(VISIBLE_DEVICES)})"
    parts += [_some_container(name, shows) for name in CONTAINER_LISTS]
    return " || ".join(parts)


def _some_container(name: str, what: str) -> str:
    return f"(has(object.spec.{name}) && object.spec.{name}.exists(c, {what}))"


def _asks(offered: tuple[str, ...]) -> str:
    prefixes = [f"k.startsWith({_quoted(prefix)})" for prefix in (GPU_PREFIX, CLASS_PREFIX)]
    others = [f"k == {_quoted(one)}" for one in sorted(offered) if not one.startswith(GPU_PREFIX)]
    is_gpu = " || ".join([*prefixes, *others])
    asks = " || ".join(
        f"(has(c.resources.{part}) && c.resources.{part}.exists(k, {is_gpu}))"
        for part in ("limits", "requests")
    )
    return f"has(c.resources) && ({asks})"


def _quoted(text: str) -> str:
    """Return a CEL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
