"""The catalogue: what proposed rules would change, and storing them as a new version."""

from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction

from metering.domain.catalogue.editing import SizingDifference, differences, read_rules
from metering.domain.catalogue.sizing import (
    DEFAULT_RULES,
    DEFAULT_VERSION,
    Catalogue,
    Rule,
    rule_to_json,
    rules_digest,
)
from metering.domain.errors import (
    CatalogueChangedError,
    CatalogueRulesInvalidError,
    CatalogueSameError,
    NoteMissingError,
)
from metering.models import CatalogueVersion
from metering.selectors.catalogue import catalogue_in_force, hardware_seen
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


PREVIEW_DAYS: Final = 30
"""How far back a preview looks for hardware."""


def preview_catalogue(*, rules: object, actor: Actor, at: datetime) -> tuple[SizingDifference, ...]:
    """Return which hardware of the last 30 days proposed rules would size differently.

    Raises:
        CatalogueRulesInvalidError: Rules are wrong; every problem is listed.
    """
    proposed = _read(rules)
    in_force = ensure_catalogue(actor=actor, at=at)
    return differences(
        in_force,
        Catalogue(version=in_force.version + 1, rules=proposed),
        seen=hardware_seen(since=at - timedelta(days=PREVIEW_DAYS)),
    )


def add_catalogue_version(
    *, rules: object, based_on: int, note: str, actor: Actor, at: datetime
) -> CatalogueVersion:
    """Store proposed rules as the next version, which is in force at once.

    Args:
        rules: As `read_rules` takes them.
        based_on: The version that was edited, so that two people cannot overwrite each other.
        note: Why.
        actor: The person.
        at: When.

    Raises:
        CatalogueRulesInvalidError: Rules are wrong; every problem is listed.
        NoteMissingError: The note is empty.
        CatalogueChangedError: Another version was stored in between.
        CatalogueSameError: The rules are those in force.
    """
    proposed = _read(rules)
    if not note.strip():
        raise NoteMissingError("The new version has no reason.", field="note")
    in_force = ensure_catalogue(actor=actor, at=at)
    if in_force.version != based_on:
        raise CatalogueChangedError(
            f"Version {in_force.version} is in force, not {based_on}.",
            field="based_on",
            facts={"in_force": in_force.version},
        )
    if in_force.rules == proposed:
        raise CatalogueSameError("The proposed rules are those in force.", field="rules")
    try:
        return _store(proposed, version=based_on + 1, note=note.strip(), actor=actor, at=at)
    except IntegrityError as error:
        raise CatalogueChangedError(
            f"Version {based_on + 1} was stored in the meantime.", field="based_on"
        ) from error


@transaction.atomic
def _store(
    rules: tuple[Rule, ...], *, version: int, note: str, actor: Actor, at: datetime
) -> CatalogueVersion:
    stored = CatalogueVersion.objects.create(
        version=version,
        rules=[rule_to_json(rule) for rule in rules],
        digest=rules_digest(rules),
        note=note,
        created_by=actor.label,
        created_at=at,
    )
    record(
        actor=actor,
        at=at,
        action="metering:catalogue:store",
        object_kind="catalogue_version",
        object_id=version,
        facts={"digest": stored.digest, "rules": len(rules), "note": note},
    )
    return stored


def _read(rules: object) -> tuple[Rule, ...]:
    proposed, problems = read_rules(rules)
    if problems:
        raise CatalogueRulesInvalidError(
            "The proposed rules cannot be used.", field="rules", problems=problems
        )
    return proposed
