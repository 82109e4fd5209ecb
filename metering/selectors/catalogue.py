"""The catalogue in force, read from its newest stored version."""

from functools import lru_cache

from metering.domain.catalogue import Catalogue
from metering.domain.catalogue_rules import rule_from_json
from metering.models import CatalogueVersion

_VERSIONS_CACHED_MAX = 8


def catalogue_in_force() -> Catalogue | None:
    """Return the newest catalogue, or None when none was ever stored."""
    newest = CatalogueVersion.objects.order_by("-version").values_list("version", "digest").first()
    return None if newest is None else _load(*newest)


@lru_cache(maxsize=_VERSIONS_CACHED_MAX)
def _load(version: int, digest: str) -> Catalogue:
    """Return a stored version; rows never change, so a version with its digest is read once."""
    stored = CatalogueVersion.objects.get(version=version, digest=digest)
    return Catalogue(version=version, rules=tuple(rule_from_json(rule) for rule in stored.rules))
