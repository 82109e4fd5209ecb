"""The catalogue over REST: read by tenants, edited by the platform, looked at before."""

from typing import Any

import pytest

from metering.domain.catalogue.sizing import DEFAULT_RULES, rule_to_json
from metering.models import CatalogueVersion
from tests.support.cast import Cast
from tests.support.metering.clients import API, ClientFor, results

DEFAULTS = [rule_to_json(rule) for rule in DEFAULT_RULES]
MEDIUM_WHOLE: list[dict[str, Any]] = [
    {"size": "medium", "resources": ["nvidia.com/gpu"], "products": ["*H100*"]},
    *DEFAULTS,
]
PATH = f"{API}/catalogue-versions/"
PROPOSED = {"rules": MEDIUM_WHOLE, "based_on": 1, "note": "Cheaper."}
KEY = {"Idempotency-Key": "one"}


def versions() -> list[int]:
    return list(CatalogueVersion.objects.values_list("version", flat=True))


def test_a_member_reads_the_rules(cast: Cast, client_for: ClientFor) -> None:
    (one,) = results(client_for(cast.carol), "catalogue-versions")

    assert (one["version"], one["rules"]) == (1, DEFAULTS)
    answer = client_for(cast.carol).get(f"{PATH}1/")
    assert (answer.status_code, answer["ETag"]) == (200, '"1"')


def test_a_platform_admin_stores_the_next_version_once(cast: Cast, client_for: ClientFor) -> None:
    client = client_for(cast.frank)

    first = client.post(PATH, PROPOSED, headers=KEY)
    again = client.post(PATH, PROPOSED, headers=KEY)

    assert (first.status_code, first.json()["version"]) == (201, 2)
    assert first["Location"] == f"{PATH}2/"
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert versions() == [2, 1]


def test_a_preview_answers_with_the_differences(cast: Cast, client_for: ClientFor) -> None:
    answer = client_for(cast.frank).post(f"{PATH}preview/", {"rules": MEDIUM_WHOLE})

    assert answer.status_code == 200
    assert answer.json() == [
        {
            "resource": "nvidia.com/gpu",
            "product": "NVIDIA-H100-80GB-HBM3",
            "before": "large H100/whole",
            "after": "medium H100/whole",
            "is_refused": False,
            "open_units": 3,
            "unit_seconds": 0,
        }
    ]
    assert versions() == [1]


@pytest.mark.parametrize("path", ["", "preview/"])
def test_a_tenant_does_not_edit(path: str, cast: Cast, client_for: ClientFor) -> None:
    answer = client_for(cast.carol).post(f"{PATH}{path}", PROPOSED, headers=KEY)

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert versions() == [1]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"rules": "all large"}, 422, "metering_catalogue_rules_invalid"),
        ({"rules": [{"size": "huge", "resources": [1]}]}, 422, "metering_catalogue_rules_invalid"),
        ({"based_on": 9}, 409, "metering_catalogue_changed"),
        ({"rules": DEFAULTS}, 409, "metering_catalogue_same"),
        ({"note": ""}, 422, "invalid_input"),
        ({"based_on": 0}, 422, "invalid_input"),
    ],
)
def test_bad_rules_are_refused_and_nothing_is_stored(
    change: dict[str, Any], status: int, code: str, cast: Cast, client_for: ClientFor
) -> None:
    answer = client_for(cast.frank).post(PATH, {**PROPOSED, **change}, headers=KEY)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert versions() == [1]


def test_a_version_that_is_not_there_is_not_found(cast: Cast, client_for: ClientFor) -> None:
    assert client_for(cast.frank).get(f"{PATH}9/").status_code == 404
