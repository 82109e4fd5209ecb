"""/api/v1/headroom/ and /api/v1/quota-forecasts/ through HTTP."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from quotas.models import QuotaLimit
from tenants.models import Cluster
from tests.builders import bind, make_cluster
from tests.cast import Cast
from tests.quotas.api.conftest import Caller
from tests.quotas.builders import make_limit, see_size
from tests.quotas.fair_use import give, reserve, run

URL = "/api/v1/headroom/"
FORECASTS = "/api/v1/quota-forecasts/"


@pytest.fixture
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=4)
    reserve(cluster, cast.llm, units=3, username="carol")
    return cluster


def asked(cast: Cast, **more: object) -> dict[str, Any]:
    return {"project": str(cast.llm.pk), "size": "large", "units": 1, **more}


def test_what_fits_may_start_now_and_no_cache_keeps_the_answer(
    hopper: Cluster, cast: Cast, caller: Caller
) -> None:
    answer = caller("carol").get(URL, asked(cast))

    body = answer.json()
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert (body["fits"], body["free_units"], body["code"]) == (True, 1, "fits")
    assert body["why"] == "1 Large may start now."
    assert (body["blocked_by"], body["when"], body["hint"]) == (None, None, None)
    assert body["limits"] == [
        {
            "id": str(QuotaLimit.objects.get().pk),
            "scope": "project",
            "holder": "llm",
            "model_group": "",
            "cluster": "",
            "limit_units": 4,
            "used_units": 3,
            "reserved_units": 0,
            "free_units": 1,
            "is_allowance_used": False,
        }
    ]
    assert body["clusters"] == [
        {
            "cluster": hopper.slug,
            "seen_at": None,
            "offered_units": None,
            "held_units": 0,
            "free_units": None,
        }
    ]


@pytest.mark.usefixtures("hopper")
def test_what_does_not_fit_is_told_with_its_reason_and_its_time(cast: Cast, caller: Caller) -> None:
    begin = timezone.now() + timedelta(hours=5)
    give(QuotaLimit.objects.get(), 2, begin_at=begin, end_at=None)

    body = caller("carol").get(URL, asked(cast, units=2)).json()

    assert (body["fits"], body["code"]) == (False, "limit_reached")
    assert body["blocked_by"]["holder"] == "llm"
    assert body["when"]["basis"] == "known_changes"
    assert body["when"]["p50"] == body["when"]["p90"]
    assert "holds 3" in body["why"]


def test_quota_that_no_node_has_room_for_is_hinted(
    hopper: Cluster, cast: Cast, caller: Caller
) -> None:
    see_size(hopper, "nvidia_com_gpu", "large", at=timezone.now())
    run(hopper, cast.llm, units=8)

    body = caller("carol").get(URL, asked(cast)).json()

    assert (body["fits"], body["hint"]) == (True, "cluster_full")
    assert body["clusters"][0]["free_units"] == 0


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"units": 0}, "units"),
        ({"units": "many"}, "units"),
        ({"units": 2_000_000}, "units"),
        ({"size": "huge"}, "size"),
        ({"project": "llm"}, "project"),
        ({"burst": "perhaps"}, "burst"),
        ({"cluster": "nowhere"}, "cluster"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_wrong_question_is_refused_with_its_field(
    cast: Cast, caller: Caller, wrong: dict[str, Any], field: str
) -> None:
    answer = caller("carol").get(URL, asked(cast, **wrong))

    assert answer.status_code in {400, 422}
    assert field in answer.content.decode()


@pytest.mark.usefixtures("hopper")
def test_another_tenants_project_does_not_exist(cast: Cast, caller: Caller) -> None:
    assert caller("mallory").get(URL, asked(cast)).status_code == 404
    assert caller("ann").get(URL, asked(cast)).status_code == 200


@pytest.mark.usefixtures("hopper")
def test_forecasts_are_listed_for_the_limits_one_sees(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=9)
    make_limit(cast.umbrella, cast.virus, units=2)
    narrow = make_limit(cast.acme, cast.vision, units=3)
    QuotaLimit.objects.filter(pk=narrow.pk).update(model_group="H100")

    (told,) = caller("carol").get(FORECASTS).json()["results"]
    every = caller("ann").get(FORECASTS).json()["results"]
    one = caller("ann").get(FORECASTS, {"project": str(cast.virus.pk)}).json()["results"]

    assert told == {
        "limit": str(QuotaLimit.objects.get(project=cast.llm).pk),
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "size": "large",
        "limit_units": 4,
        "outcome": "too_little_history",
        "expected_on": None,
        "weekly_units": None,
    }
    assert len(every) == 2
    assert [row["limit_units"] for row in one] == [2]
