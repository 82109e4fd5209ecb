"""Catalogue versions are stored once and kept for ever."""

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from metering.domain.catalogue.sizing import DEFAULT_RULES, rule_to_json, rules_digest
from metering.models import CatalogueVersion
from metering.services.catalogue import ensure_catalogue
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.metering.seen import ACTOR

pytestmark = pytest.mark.django_db


def test_the_default_rules_are_stored_once() -> None:
    first = ensure_catalogue(actor=ACTOR, at=AT)
    second = ensure_catalogue(actor=ACTOR, at=AT)

    assert first == second
    stored = CatalogueVersion.objects.get()
    assert (stored.version, stored.digest) == (1, rules_digest(DEFAULT_RULES))
    assert AuditEntry.objects.get().action == "metering:catalogue:store"


def test_the_newest_version_is_in_force() -> None:
    ensure_catalogue(actor=ACTOR, at=AT)
    rules = DEFAULT_RULES[:3]
    CatalogueVersion.objects.create(
        version=2,
        rules=[rule_to_json(rule) for rule in rules],
        digest=rules_digest(rules),
        created_at=AT,
    )

    found = ensure_catalogue(actor=ACTOR, at=AT)

    assert (found.version, found.rules) == (2, rules)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE metering_catalogueversion SET digest = ''",
        "DELETE FROM metering_catalogueversion",
        "TRUNCATE metering_catalogueversion CASCADE",
    ],
)
def test_a_version_is_never_changed(change: str) -> None:
    ensure_catalogue(actor=ACTOR, at=AT)

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)

    assert CatalogueVersion.objects.get().digest == rules_digest(DEFAULT_RULES)
