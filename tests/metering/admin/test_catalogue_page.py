"""The page on which the next catalogue version is written."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from metering.domain.catalogue.sizing import DEFAULT_RULES, rule_to_json
from metering.models import CatalogueVersion
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, worker
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
PAGE = "/admin/metering/catalogueversion/edit/"
DEFAULTS = [rule_to_json(rule) for rule in DEFAULT_RULES]
MEDIUM_WHOLE: list[dict[str, Any]] = [
    {"size": "medium", "resources": ["nvidia.com/gpu"], "products": ["*H100*"]},
    *DEFAULTS,
]


@shared_rows
def cast() -> Cast:
    """Everybody, after one metered hour of one pod on an H100."""
    people = make_cast()
    User.objects.update(is_staff=True)
    bind(make_cluster(metered_from=HOUR), "llm", people.llm)
    meter_due(
        worker=worker(observation(pod("a", namespace="llm", units=2))), at=moment(3600 + LATER)
    )
    return people


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def post(client: Client, button: str, rules: object, note: str = "Cheaper.") -> str:
    asked = {"rules": json.dumps(rules), "note": note, "based_on": "1", button: ""}
    answer = client.post(PAGE, asked, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def versions() -> list[int]:
    return list(CatalogueVersion.objects.values_list("version", flat=True))


def test_the_form_holds_the_rules_in_force(cast: Cast) -> None:
    text = enter(cast.frank).get(PAGE).content.decode()

    assert "rules of version 1, which is in force" in text
    assert "nvidia.com/mig-4g.24gb*" in text


def test_looking_shows_the_difference_and_stores_nothing(cast: Cast) -> None:
    text = post(enter(cast.frank), "_preview", MEDIUM_WHOLE, note="")

    assert "nvidia.com/gpu on NVIDIA-H100-80GB-HBM3" in text
    assert "large H100/whole" in text
    assert "medium H100/whole" in text
    assert versions() == [1]


def test_looking_at_the_same_rules_says_that_nothing_changes(cast: Cast) -> None:
    assert "would be called otherwise" in post(enter(cast.frank), "_preview", DEFAULTS)


def test_storing_leads_to_the_list(cast: Cast) -> None:
    text = post(enter(cast.frank), "_store", MEDIUM_WHOLE)

    assert "catalogue v2 is in force." in text
    assert CatalogueVersion.objects.get(version=2).note == "Cheaper."


@pytest.mark.parametrize(
    ("rules", "note", "reported"),
    [
        ([{"size": "huge", "resources": ["a"]}], "Why.", "rules[0].size: Use small"),
        (MEDIUM_WHOLE, "", "The new version has no reason."),
        (DEFAULTS, "Why.", "The proposed rules are those in force."),
    ],
)
def test_a_refusal_stands_beside_its_field(
    rules: object, note: str, reported: str, cast: Cast
) -> None:
    text = post(enter(cast.frank), "_store", rules, note)

    assert reported in text
    assert versions() == [1]


def test_what_is_no_json_is_refused(cast: Cast) -> None:
    answer = enter(cast.frank).post(PAGE, {"rules": "{", "based_on": "1", "_store": ""})

    assert "Enter a valid JSON." in answer.content.decode()
    assert versions() == [1]


def test_an_auditor_reads_the_versions_without_editing(cast: Cast) -> None:
    client = enter(cast.dora)

    assert client.get("/admin/metering/catalogueversion/").status_code == 200
    assert client.get(PAGE).status_code == 403
