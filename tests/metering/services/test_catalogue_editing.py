"""A catalogue version is proposed, looked at, and stored on top of the one it was edited from."""

from typing import Any

import pytest

from metering.domain.catalogue.sizing import DEFAULT_RULES, rule_to_json
from metering.domain.errors import (
    CatalogueChangedError,
    CatalogueRulesInvalidError,
    CatalogueSameError,
    NoteMissingError,
)
from metering.models import CatalogueVersion, PodAllocation
from metering.services.catalogue import add_catalogue_version, ensure_catalogue, preview_catalogue
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.metering.collecting import collect
from tests.support.metering.seen import ACTOR, LATER, SLICED_A100, moment, observation, pod

pytestmark = pytest.mark.django_db

DEFAULTS = [rule_to_json(rule) for rule in DEFAULT_RULES]
MEDIUM_WHOLE: list[dict[str, Any]] = [
    {"size": "medium", "resources": ["nvidia.com/gpu"], "products": ["*H100*"]},
    *DEFAULTS,
]


def test_the_next_version_is_in_force_at_once_and_audited() -> None:
    ensure_catalogue(actor=ACTOR, at=AT)

    stored = add_catalogue_version(
        rules=MEDIUM_WHOLE, based_on=1, note=" H100 is cheap now. ", actor=ACTOR, at=AT
    )

    assert (stored.version, stored.note, stored.created_by) == (
        2,
        "H100 is cheap now.",
        ACTOR.label,
    )
    assert ensure_catalogue(actor=ACTOR, at=AT).version == 2
    entry = AuditEntry.objects.get(object_id="2")
    assert (entry.action, entry.facts["note"]) == ("metering:catalogue:store", "H100 is cheap now.")


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"rules": [{"size": "huge", "resources": ["a"]}]}, CatalogueRulesInvalidError),
        ({"note": "  "}, NoteMissingError),
        ({"based_on": 7}, CatalogueChangedError),
        ({"rules": DEFAULTS}, CatalogueSameError),
    ],
)
def test_a_refused_version_leaves_the_catalogue_as_it_was(
    change: dict[str, Any], refusal: type[Exception]
) -> None:
    ensure_catalogue(actor=ACTOR, at=AT)
    asked = {"rules": MEDIUM_WHOLE, "based_on": 1, "note": "Why not.", **change}

    with pytest.raises(refusal):
        add_catalogue_version(**asked, actor=ACTOR, at=AT)

    assert list(CatalogueVersion.objects.values_list("version", flat=True)) == [1]
    assert AuditEntry.objects.filter(action="metering:catalogue:store").count() == 1


def test_every_wrong_rule_is_reported() -> None:
    with pytest.raises(CatalogueRulesInvalidError) as caught:
        preview_catalogue(rules=[{"size": "huge"}], actor=ACTOR, at=AT)

    assert [problem.field for problem in caught.value.problems] == [
        "rules[0].size",
        "rules[0].resources",
    ]


@pytest.mark.usefixtures("project")
def test_a_preview_shows_what_pods_of_the_last_month_would_be_called() -> None:
    collect(
        observation(
            pod("a", namespace="team-nlp", units=2),
            pod("b", namespace="team-nlp"),
            pod("c", namespace="team-nlp", node="sliced", labels=SLICED_A100),
            pod("d", namespace="team-nlp", priority_class="gpu-ledger-burst"),
        )
    )

    found = preview_catalogue(rules=MEDIUM_WHOLE, actor=ACTOR, at=moment(3600 + LATER))

    (one,) = found
    assert (one.before, one.after) == ("large H100/whole", "medium H100/whole")
    assert (one.open_units, one.unit_seconds) == (4, 4 * 3600)


def test_a_preview_stores_nothing() -> None:
    preview_catalogue(rules=MEDIUM_WHOLE, actor=ACTOR, at=AT)

    assert list(CatalogueVersion.objects.values_list("version", flat=True)) == [1]


@pytest.mark.usefixtures("project")
def test_what_was_settled_keeps_its_size() -> None:
    collect(observation(pod("a", namespace="team-nlp")))

    add_catalogue_version(rules=MEDIUM_WHOLE, based_on=1, note="Cheaper.", actor=ACTOR, at=AT)
    collect(observation(pod("a", namespace="team-nlp")))

    settled = PodAllocation.objects.get()
    assert (settled.size, settled.catalogue_version) == ("large", 1)
