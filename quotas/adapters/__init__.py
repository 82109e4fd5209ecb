"""IO of quotas, without models. Entry points choose by settings, such as QUOTA_ENFORCER."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.utils.module_loading import import_string

from quotas.protocols import QuotaEnforcer
from quotas.protocols.costs import CostEstimator
from quotas.protocols.drift import QuotaWatchSource
from quotas.protocols.workloads import WorkloadEvictor


def quota_enforcer(setting: Mapping[str, Any]) -> QuotaEnforcer:
    """Return the enforcer a setting names; one per setting and process, so connections are kept.

    Args:
        setting: {"BACKEND": dotted path of a class, "OPTIONS": its keyword arguments}.
    """
    enforcer: QuotaEnforcer = _made(
        setting["BACKEND"], json.dumps(setting.get("OPTIONS", {}), sort_keys=True)
    )
    return enforcer


def quota_watch(setting: Mapping[str, Any]) -> QuotaWatchSource:
    """Return the watch of what the enforcer of a setting writes, in its format."""
    watch: QuotaWatchSource = _made(
        setting["BACKEND"], json.dumps(setting.get("OPTIONS", {}), sort_keys=True)
    )
    return watch


def workload_evictor(setting: Mapping[str, Any]) -> WorkloadEvictor:
    """Return the evictor a setting names; one per setting and process, so connections are kept.

    Args:
        setting: {"BACKEND": dotted path of a class, "OPTIONS": its keyword arguments}.
    """
    evictor: WorkloadEvictor = _made(
        setting["BACKEND"], json.dumps(setting.get("OPTIONS", {}), sort_keys=True)
    )
    return evictor


def cost_estimator(setting: Mapping[str, Any]) -> CostEstimator:
    """Return the cost estimator that a setting names, in the format of `quota_enforcer`."""
    estimator: CostEstimator = _made(
        setting["BACKEND"], json.dumps(setting.get("OPTIONS", {}), sort_keys=True)
    )
    return estimator


@cache
def _made(backend: str, options: str) -> Any:  # noqa: ANN401 - What a setting names.
    return import_string(backend)(**json.loads(options))
