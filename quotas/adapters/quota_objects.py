"""Write and read the ResourceQuota objects of one namespace.

Up to three of them are ours. `gpu-ledger` caps the total of all pods. Where preemptible pods may
use units beyond the nominal ones, `gpu-ledger-nominal` caps all other pods at the nominal units,
and `gpu-ledger-burst` caps the preemptible pods. Kubernetes distinguishes them by priority class; a
pod without one counts as nominal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from quotas.adapters.cluster_calls import JSON, other_managers
from quotas.domain.enforcement.resource_quota import CLAIM_SUFFIX, KEY_PREFIX, scoped_of, total_of
from quotas.protocols import (
    DesiredQuota,
    LiveQuota,
    QuotaConflictError,
    StaleGenerationError,
)
from tenants.domain.errors import SourceUnavailableError

OBJECT_NAME: Final = "gpu-ledger"
NOMINAL_NAME: Final = "gpu-ledger-nominal"
BURST_NAME: Final = "gpu-ledger-burst"
OURS: Final = (OBJECT_NAME, NOMINAL_NAME, BURST_NAME)
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "gpu-ledger"}
GENERATION: Final = "gpu-ledger.io/generation"
GENERATION_MAX: Final = 10**15
"""More writes than ever happen; a larger number was written by another client."""
_GENERATION_DIGITS_MAX: Final = 18


@dataclass(frozen=True)
class DesiredQuotaObject:
    """One desired object: its name, spec and pod scope.

    Attributes:
        operator: "In" or "NotIn" the burst classes; "" for every pod.
    """

    name: str
    hard: Mapping[str, int]
    operator: str = ""


def scoped_quotas(desired: DesiredQuota) -> tuple[DesiredQuotaObject, ...]:
    """Return the objects by kind of pod; none where burst was never granted."""
    if not desired.burst_hard:
        return ()
    return (
        DesiredQuotaObject(NOMINAL_NAME, scoped_of(desired.hard), "NotIn"),
        DesiredQuotaObject(BURST_NAME, scoped_of(desired.burst_hard), "In"),
    )


def whole_quota(desired: DesiredQuota) -> DesiredQuotaObject:
    """Return the object that holds all pods together."""
    return DesiredQuotaObject(OBJECT_NAME, total_of(desired.hard, desired.burst_hard))


def body_of(
    quota_cap: DesiredQuotaObject,
    desired: DesiredQuota,
    *,
    version: str | None,
    burst_classes: Sequence[str],
) -> JSON:
    """Return the whole intent of one object: a key that is not sent any more is removed."""
    metadata: JSON = {
        "name": quota_cap.name,
        "namespace": desired.namespace,
        "labels": MANAGED_BY,
        "annotations": {GENERATION: str(desired.generation)},
    }
    if version is not None:
        metadata["resourceVersion"] = version
    spec: JSON = {"hard": {key: str(units) for key, units in quota_cap.hard.items()}}
    if quota_cap.operator:
        expression = {
            "scopeName": "PriorityClass",
            "operator": quota_cap.operator,
            "values": list(burst_classes),
        }
        spec["scopeSelector"] = {"matchExpressions": [expression]}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class NamespaceQuotas:
    """Every ResourceQuota of one namespace, as the cluster returned it; by name."""

    namespace: str
    objects: Mapping[str, JSON]

    @property
    def generation(self) -> int:
        """Return the newest generation stamped on ours; 0 when none is there."""
        return max(_generation_of(self.objects.get(name)) for name in OURS)

    def version(self, name: str) -> str | None:
        """Return an object's resource version; None when it is not there."""
        found = self.objects.get(name)
        return None if found is None else found["metadata"].get("resourceVersion")

    def refuse_stale(self, desired: DesiredQuota) -> None:
        """Refuse to go back behind a newer generation.

        Raises:
            StaleGenerationError: The cluster has one.
            QuotaConflictError: The cluster has a generation that this service never wrote.
        """
        refuse_newer(self.generation, desired, managers=self._managers())

    def has(self, quota_cap: DesiredQuotaObject) -> bool:
        """Whether an object's status has the desired values."""
        hard = self._said(quota_cap.name, "hard")
        return all(hard.get(key) == units for key, units in quota_cap.hard.items())

    def differences(self, quota_cap: DesiredQuotaObject) -> tuple[str, ...]:
        """Return what an object's spec has instead of the desired values, a phrase for each key."""
        spec = (self.objects.get(quota_cap.name) or {}).get("spec") or {}
        values = _units_of(spec.get("hard") or {})
        return tuple(
            f"{key} is {values.get(key, 'missing')} instead of {units}"
            for key, units in sorted(quota_cap.hard.items())
            if values.get(key) != units
        )

    def live(self) -> LiveQuota:
        """Return what the objects come to together."""
        whole = self._said(OBJECT_NAME, "hard")
        is_scoped = not self.objects.keys().isdisjoint({NOMINAL_NAME, BURST_NAME})
        nominal = self._said(NOMINAL_NAME, "hard")
        return LiveQuota(
            namespace=self.namespace,
            hard={key: min(units, nominal.get(key, units)) for key, units in whole.items()},
            used=self._said(OBJECT_NAME, "used"),
            generation=self.generation,
            burst_hard=self._said(BURST_NAME, "hard"),
            burst_used=self._said(BURST_NAME, "used"),
            total_hard=whole if is_scoped else {},
            managers=self._managers(),
            foreign=self._foreign(),
        )

    def _said(self, name: str, part: str) -> dict[str, int]:
        status = (self.objects.get(name) or {}).get("status") or {}
        return _units_of(status.get(part) or {})

    def _managers(self) -> tuple[str, ...]:
        found = {
            manager
            for name in OURS
            if name in self.objects
            for manager in other_managers(self.objects[name])
        }
        return tuple(sorted(found))

    def _foreign(self) -> dict[str, dict[str, int]]:
        """Return what others' quotas say of GPU resources, by name."""
        hard_limits = {
            name: _units_of((one.get("spec") or {}).get("hard") or {})
            for name, one in sorted(self.objects.items())
            if name not in OURS
        }
        return {name: hard for name, hard in hard_limits.items() if hard}


def quotas_in(namespace: str, document: Mapping[str, Any]) -> NamespaceQuotas:
    """Return the ResourceQuotas of a list as the API answers it.

    Raises:
        SourceUnavailableError: The answer is no list; that is not taken for an empty one.
    """
    items = document.get("items")
    if not isinstance(items, list):
        raise SourceUnavailableError(
            f"The quotas of {namespace} were not answered with a list.", reason="bad_answer"
        )
    return NamespaceQuotas(namespace, {one["metadata"]["name"]: one for one in items})


def _generation_of(obj: Mapping[str, Any] | None) -> int:
    """Return the generation stamped on an object; 0 when it is not there or not ours."""
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return generation_in(annotations)


def refuse_newer(generation: int, desired: DesiredQuota, *, managers: tuple[str, ...] = ()) -> None:
    """Refuse to write behind a generation that a cluster has.

    Raises:
        StaleGenerationError: It is newer than what is desired.
        QuotaConflictError: It is so high that it cannot be ours, and nothing could follow it.
    """
    if generation > GENERATION_MAX:
        raise QuotaConflictError(
            f"The annotation {GENERATION} is none of ours, it is above {GENERATION_MAX}: have "
            "its author remove it.",
            managers=managers,
        )
    if generation > desired.generation:
        raise StaleGenerationError(
            f"The cluster has generation {generation}, newer than {desired.generation}.",
            generation=generation,
        )


def generation_in(annotations: Mapping[str, str]) -> int:
    """Return the generation that annotations name; 0 when they do not.

    A number with too many digits is returned as a value above GENERATION_MAX.
    """
    text = annotations.get(GENERATION, "")
    if not text.isascii() or not text.isdigit():
        return 0
    return int(text) if len(text) <= _GENERATION_DIGITS_MAX else GENERATION_MAX + 1


def _units_of(quantities: Mapping[str, str]) -> dict[str, int]:
    """Return the GPU keys among quantities in whole units; "1k" is how 1000 comes back.

    Raises:
        SourceUnavailableError: A key is no whole number.
    """
    units = {}
    for key, text in sorted(quantities.items()):
        is_extended = key.startswith(KEY_PREFIX) and "/" in key
        if not is_extended and not key.endswith(CLAIM_SUFFIX):
            continue
        quantity = Decimal(parse_quantity(text))  # type: ignore[no-untyped-call]
        if quantity != int(quantity):
            raise SourceUnavailableError(f"{key} is {text}, no whole number.", reason="bad_answer")
        units[key] = int(quantity)
    return units
