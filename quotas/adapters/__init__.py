"""IO of quotas: they know no model. Doors choose one by the setting QUOTA_ENFORCER."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.utils.module_loading import import_string

from quotas.protocols import QuotaEnforcer


def quota_enforcer(setting: Mapping[str, Any]) -> QuotaEnforcer:
    """Return the enforcer a setting names; one per setting and process, so connections are kept.

    Args:
        setting: {"BACKEND": dotted path of a class, "OPTIONS": its keyword arguments}.
    """
    return _built(setting["BACKEND"], json.dumps(setting.get("OPTIONS", {}), sort_keys=True))


@cache
def _built(backend: str, options: str) -> QuotaEnforcer:
    enforcer: QuotaEnforcer = import_string(backend)(**json.loads(options))
    return enforcer
