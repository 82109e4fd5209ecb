"""Where metering meets the outside: what settings name is picked here."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from metering.protocols import UsageSource
from metering.protocols.held_costs import HeldCosts
from metering.protocols.watch import ClusterWatchSource


def usage_source(setting: Mapping[str, Any]) -> UsageSource:
    """Return the source a setting like `{"BACKEND": "dotted.path", "OPTIONS": {...}}` names.

    Keep what is returned for as long as the process meters: a source reuses its connections.

    Raises:
        ImportError: There is no such class.
        ImproperlyConfigured: It cannot be made with these options.
    """
    backend = import_string(setting["BACKEND"])
    try:
        source: UsageSource = backend(**setting.get("OPTIONS", {}))
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"USAGE_SOURCE_OPTIONS: {error}") from error
    return source


def cluster_watch(setting: Mapping[str, Any]) -> ClusterWatchSource:
    """Return the watch a setting like `{"BACKEND": "dotted.path", "OPTIONS": {...}}` names.

    Raises:
        ImportError: There is no such class.
        ImproperlyConfigured: It cannot be made with these options.
    """
    backend = import_string(setting["BACKEND"])
    try:
        watch: ClusterWatchSource = backend(**setting.get("OPTIONS", {}))
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"CLUSTER_WATCH_OPTIONS: {error}") from error
    return watch


@cache
def held_costs(backend: str) -> HeldCosts:
    """Return the source of prices of held use that a dotted path names; one for each process.

    Raises:
        ImportError: There is no such class.
    """
    costs: HeldCosts = import_string(backend)()
    return costs
