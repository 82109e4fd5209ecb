"""What a pod counts for in a quota: its effective request, unless it is over.

Source: kubernetes/pkg/quota/v1/evaluator/core/pods.go and component-helpers/resource/helpers.go.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.quantities import parse_quantity

Usage = Mapping[str, Fraction]
TERMINAL: Final = frozenset({"Succeeded", "Failed"})


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended one, such as nvidia.com/gpu."""
    domain = resource.split("/", maxsplit=1)[0]
    return "/" in resource and domain != "kubernetes.io" and not resource.startswith("requests.")


def counted_names(names: Iterable[str]) -> set[str]:
    """Return those of a quota's keys that pods count for."""
    return {name for name in names if _is_counted(name)}


def usage_of(pod: JSON, at: datetime) -> dict[str, Fraction]:
    """Return what a pod counts for, by quota key; nothing when it is over.

    A pod that is being deleted counts until its grace has passed, then no more, although it still
    exists and holds its devices.
    """
    if is_over(pod, at):
        return {}
    usage = {"pods": Fraction(1), "count/pods": Fraction(1)}
    requests = effective(pod, "requests").items()
    return usage | {f"requests.{resource}": value for resource, value in requests}


def is_over(pod: JSON, at: datetime) -> bool:
    """Whether a pod counts for nothing any more."""
    if pod.get("status", {}).get("phase") in TERMINAL:
        return True
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return False
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
    return at > datetime.fromisoformat(metadata["deletionTimestamp"]) + grace


def effective(pod: JSON, kind: str) -> dict[str, Fraction]:
    """Return max(containers + sidecars, each init + the sidecars before it), by resource.

    Args:
        pod: The pod.
        kind: "requests" or "limits".
    """
    spec = pod["spec"]
    sidecars: defaultdict[str, Fraction] = defaultdict(Fraction)
    largest_init: defaultdict[str, Fraction] = defaultdict(Fraction)
    for container in spec.get("initContainers", []):
        amounts = _amounts(container, kind)
        is_sidecar = container.get("restartPolicy") == "Always"
        for resource, value in amounts.items():
            if is_sidecar:
                sidecars[resource] += value
            else:
                together = value + sidecars[resource]
                largest_init[resource] = max(largest_init[resource], together)
    total = defaultdict(Fraction, sidecars)
    for container in spec.get("containers", []):
        for resource, value in _amounts(container, kind).items():
            total[resource] += value
    return {key: max(total[key], largest_init[key]) for key in {*total, *largest_init}}


def matches_scopes(quota: JSON, pod: JSON) -> bool:
    """Whether a quota is about a pod: every scope of it must fit."""
    spec = quota["spec"]
    expressions = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes", [])]
    expressions += spec.get("scopeSelector", {}).get("matchExpressions", [])
    return all(_fits(expression, pod) for expression in expressions)


def _is_counted(name: str) -> bool:
    return name in {"pods", "count/pods"} or name.startswith("requests.")


def _amounts(container: JSON, kind: str) -> dict[str, Fraction]:
    amounts = container.get("resources", {}).get(kind) or {}
    return {resource: parse_quantity(value) for resource, value in amounts.items()}


def _fits(expression: JSON, pod: JSON) -> bool:
    name, operator = expression["scopeName"], expression["operator"]
    spec = pod["spec"]
    if name == "PriorityClass":
        value = spec.get("priorityClassName", "")
        return _compares(operator, value, expression.get("values", []))
    has_deadline = spec.get("activeDeadlineSeconds") is not None
    return {
        "Terminating": has_deadline,
        "NotTerminating": not has_deadline,
    }.get(name, False)


def _compares(operator: str, value: str, values: list[str]) -> bool:
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": bool(value),
        "DoesNotExist": not value,
    }[operator]
