"""The catalogue in force, read from its newest stored version."""

import json
from functools import lru_cache

from metering.domain.catalogue import Catalogue
from metering.domain.catalogue_rules import rule_from_json
from metering.models import CatalogueVersion

_VERSIONS_CACHED_MAX = 8


def catalogue_in_force() -> Catalogue | None:
    """Return the newest catalogue, or None when none was ever stored."""
    newest = CatalogueVersion.objects.order_by("-version").first()
    if newest is None:
        return None
    return _parse(newest.version, json.dumps(newest.rules))


@lru_cache(maxsize=_VERSIONS_CACHED_MAX)
def _parse(version: int, rules: str) -> Catalogue:
    return Catalogue(
        version=version, rules=tuple(rule_from_json(stored) for stored in json.loads(rules))
    )
