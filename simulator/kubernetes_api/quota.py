"""ResourceQuota's accounting: pods are refused at creation, the status follows a little later.

A pod is compared with `status.hard`, which a controller copies from `spec.hard` some milliseconds
after a write. Until then a new key limits nothing, as on a real server. A lowered quota evicts no
pod. Pods count, and what they request; compute resources have no second name without "requests.".
Source: kubernetes/apiserver, pkg/admission/plugin/resourcequota/controller.go;
kubernetes/pkg/quota/v1/evaluator/core/pods.go; component-helpers/resource/helpers.go.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from simulator.kubernetes_api.errors import JSON, forbidden
from simulator.kubernetes_api.reading import matches_expression
from simulator.kubernetes_api.resources import PODS, QUOTAS
from simulator.kubernetes_api.store import ObjectStore

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
Amounts = Mapping[str, Fraction]
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]{1,2}))",
    re.ASCII,
)
"""Source: kubernetes/apimachinery, pkg/api/resource/quantity.go."""
_LENGTH_MAX: Final = 64


def parse_quantity(raw: object) -> Fraction:
    """Return the value of a quantity such as "8", "500m" or "1Gi".

    Raises:
        ValueError: It is none.
    """
    text = str(raw)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None:
        raise ValueError("quantities must match the regular expression of a number and a suffix")
    number, binary, decimal, exponent = match.groups()
    if binary:
        return Fraction(number) * Fraction(1024 ** _BINARY.index(binary))
    power = int(exponent) if exponent else 3 * (_DECIMAL.index(decimal) - _DECIMAL.index(""))
    return Fraction(f"{number}e{power}")


def format_quantity(value: Fraction) -> str:
    """Return a value in its plain form: whole, or in thousandths."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{-(-value.numerator * 1000 // value.denominator)}m"


def is_extended(resource: str) -> bool:
    """Return whether a resource is an extended one, such as nvidia.com/gpu."""
    return "/" in resource and not resource.startswith(("kubernetes.io/", "requests."))


def effective_requests(pod: JSON) -> dict[str, Fraction]:
    """Return max(containers + sidecars, each init + the sidecars before it), by resource."""
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    peak: defaultdict[str, Fraction] = defaultdict(Fraction)
    for container in pod["spec"].get("initContainers") or []:
        for resource, value in _requests(container).items():
            if container.get("restartPolicy") == "Always":
                total[resource] += value
            else:
                peak[resource] = max(peak[resource], total[resource] + value)
    for container in pod["spec"].get("containers") or []:
        for resource, value in _requests(container).items():
            total[resource] += value
    return {key: max(total[key], peak[key]) for key in {*total, *peak}}


def usage_of(pod: JSON, at: datetime) -> dict[str, Fraction]:
    """Return what a pod counts for, by quota key; nothing when it is over.

    A pod that is being deleted counts until its grace has passed, then no more, although it still
    exists and holds its devices.
    """
    metadata = pod["metadata"]
    if pod.get("status", {}).get("phase") in TERMINAL:
        return {}
    if "deletionTimestamp" in metadata:
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        if at > datetime.fromisoformat(metadata["deletionTimestamp"]) + grace:
            return {}
    requests = {f"requests.{key}": value for key, value in effective_requests(pod).items()}
    return {"pods": Fraction(1), "count/pods": Fraction(1), **requests}


def matches_scopes(quota: JSON, pod: JSON) -> bool:
    """Return whether a pod counts in a quota: every scope of it must fit."""
    spec = quota["spec"]
    expressions = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes", [])]
    expressions += spec.get("scopeSelector", {}).get("matchExpressions", [])
    has_deadline = pod["spec"].get("activeDeadlineSeconds") is not None
    values = {
        "PriorityClass": pod["spec"].get("priorityClassName") or None,
        "Terminating": "" if has_deadline else None,
        "NotTerminating": None if has_deadline else "",
    }
    return all(matches_expression(one, values.get(one["scopeName"])) for one in expressions)


def admit(store: ObjectStore, pod: JSON, *, is_dry_run: bool) -> None:
    """Charge a new pod to every quota of its namespace, or refuse it; hold the store's lock."""
    namespace, usage = pod["metadata"]["namespace"], usage_of(pod, store.clock())
    charged: list[tuple[str, JSON]] = []
    for (_, name), quota in store.items(QUOTAS, namespace):
        status = quota["status"]
        keys = sorted(status.get("hard", {}).keys() & usage.keys())
        if keys and matches_scopes(quota, pod):
            so_far = status.get("used", {})
            used = {key: parse_quantity(so_far.get(key, "0")) + usage[key] for key in keys}
            _refuse_exceeded(pod, quota, usage, used)
            texts = {key: format_quantity(value) for key, value in used.items()}
            charged.append((name, {**quota, "status": {**status, "used": {**so_far, **texts}}}))
    for name, quota in charged if not is_dry_run else ():
        store.put(QUOTAS, (namespace, name), quota)


def reconcile_quotas(store: ObjectStore) -> None:
    """Write the status of every quota that differs from what its pods count for."""
    at = store.clock()
    with store.lock:
        quotas = store.items(QUOTAS)
        pods: defaultdict[str, list[JSON]] = defaultdict(list)
        for (namespace, _), pod in store.items(PODS) if quotas else ():
            pods[namespace].append(pod)
        counts = Counter(namespace for (namespace, _), _ in quotas)
        for key, quota in quotas:
            hard = quota["spec"].get("hard", {})
            totals = defaultdict(Fraction, {"resourcequotas": Fraction(counts[key[0]])})
            for pod in pods[key[0]]:
                if matches_scopes(quota, pod):
                    for name, value in usage_of(pod, at).items():
                        totals[name] += value
            # A key that nothing counts for stays at zero: it is accepted and never fills.
            used = {name: format_quantity(totals[name]) for name in hard}
            store.put_status(QUOTAS, key, {"hard": dict(hard), "used": used})


def _refuse_exceeded(pod: JSON, quota: JSON, usage: Amounts, used: Amounts) -> None:
    """Refuse when one of the keys the pod asks for does not fit; other keys are not looked at."""
    status = quota["status"]
    exceeded = [
        key for key in used if usage[key] > 0 and used[key] > parse_quantity(status["hard"][key])
    ]
    if exceeded:
        requested = ",".join(f"{key}={format_quantity(usage[key])}" for key in exceeded)
        so_far = ",".join(f"{key}={status['used'][key]}" for key in exceeded)
        limited = ",".join(f"{key}={status['hard'][key]}" for key in exceeded)
        name = quota["metadata"]["name"]
        why = f"exceeded quota: {name}, requested: {requested}, used: {so_far}, limited: {limited}"
        raise forbidden(PODS.plural, pod["metadata"]["name"], why)


def _requests(container: JSON) -> dict[str, Fraction]:
    amounts = container.get("resources", {}).get("requests") or {}
    return {resource: parse_quantity(value) for resource, value in amounts.items()}
