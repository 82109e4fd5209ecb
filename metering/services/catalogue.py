"""Writing catalogue versions: rows are only ever added."""

from datetime import datetime

from django.db import transaction

from metering.domain.catalogue import Catalogue
from metering.domain.catalogue_rules import (
    DEFAULT_RULES,
    DEFAULT_VERSION,
    rule_to_json,
    rules_digest,
)
from metering.models import CatalogueVersion
from metering.selectors.catalogue import catalogue_in_force
from tenants.domain.actors import Actor
from tenants.services.audit import record


def ensure_catalogue(*, actor: Actor, at: datetime) -> Catalogue:
    """Return the catalogue in force, storing the default rules when there is none yet."""
    found = catalogue_in_force()
    if found is not None:
        return found
    with transaction.atomic():
        _, is_new = CatalogueVersion.objects.get_or_create(
            version=DEFAULT_VERSION,
            defaults={
                "rules": [rule_to_json(rule) for rule in DEFAULT_RULES],
                "digest": rules_digest(DEFAULT_RULES),
                "created_at": at,
            },
        )
        if is_new:
            record(
                actor=actor,
                at=at,
                action="metering:catalogue:store",
                object_kind="catalogue_version",
                object_id=DEFAULT_VERSION,
                facts={"digest": rules_digest(DEFAULT_RULES), "rules": len(DEFAULT_RULES)},
            )
    return Catalogue(version=DEFAULT_VERSION, rules=DEFAULT_RULES)
