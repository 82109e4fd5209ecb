"""/api/v1/headroom/ and /api/v1/quota-forecasts/ through HTTP."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from quotas.models import EnforcementTarget, QuotaLimit
from tenants.models import Cluster
from tests.quotas.api.conftest import Caller
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit, see_size
from tests.support.quotas.fair_use import give, reserve, run
from tests.support.quotas.fair_use_caps import GPU, make_wall
from tests.support.shared_rows import shared_rows

URL = "/api/v1/headroom/"
FORECASTS = "/api/v1/quota-forecasts/"


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=4)
    reserve(cluster, cast.llm, units=3, username="carol")
    return cluster


def asked(cast: Cast, **more: object) -> dict[str, Any]:
    return {"project": str(cast.llm.pk), "size": "large", "units": 1, **more}


def hopper_room(
    observed_at: str, offered: int | None, held: int | None, free: int | None
) -> dict[str, object]:
    return {
        "cluster": "hopper",
        "observed_at": observed_at,
        "offered_units": offered,
        "held_units": held,
        "free_units": free,
    }


def test_what_fits_may_start_now_and_no_cache_keeps_the_answer(
    hopper: Cluster, cast: Cast, caller: Caller
) -> None:
    answer = caller("carol").get(URL, asked(cast))

    body = answer.json()
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert (body["fits"], body["free_units"], body["code"]) == (True, 1, "fits")
    assert body["message"] == "1 Large may start now."
    assert (body["blocked_by"], body["expected_start"], body["warning"]) == (None, None, None)
    assert body["limits"] == [
        {
            "id": str(QuotaLimit.objects.get().pk),
            "scope": "project",
            "holder": "llm",
            "model_group": "",
            "cluster": "",
            "is_visible": True,
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
            "observed_at": None,
            "offered_units": None,
            "held_units": None,
            "free_units": None,
        }
    ]


@pytest.mark.usefixtures("hopper")
def test_what_does_not_fit_is_reported_with_its_reason_and_its_time(
    cast: Cast, caller: Caller
) -> None:
    begin = timezone.now() + timedelta(hours=5)
    give(QuotaLimit.objects.get(), 2, begin_at=begin, end_at=None)

    body = caller("carol").get(URL, asked(cast, units=2)).json()

    assert (body["fits"], body["code"]) == (False, "limit_reached")
    assert body["blocked_by"]["holder"] == "llm"
    assert body["expected_start"]["basis"] == "known_changes"
    assert body["expected_start"]["p50"] == body["expected_start"]["p90"]
    assert "holds 3" in body["message"]


def test_quota_that_no_node_has_room_for_carries_a_warning(
    hopper: Cluster, cast: Cast, caller: Caller
) -> None:
    see_size(hopper, "nvidia_com_gpu", "large", at=timezone.now())
    run(hopper, cast.llm, units=8)

    bodies = {name: caller(name).get(URL, asked(cast)).json() for name in ("carol", "ann")}

    assert {(body["fits"], body["warning"]) for body in bodies.values()} == {(True, "cluster_full")}
    reported = {name: body["clusters"][0] for name, body in bodies.items()}
    observed_at = reported["ann"]["observed_at"]
    assert reported == {
        "carol": hopper_room(observed_at, None, None, None),
        "ann": hopper_room(observed_at, 8, 8, 0),
    }


def test_a_full_quota_in_the_cluster_is_reported_with_figures_to_who_reads_every_limit(
    cast: Cast, caller: Caller
) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    see_size(plain, "nvidia.com/gpu", "large", at=timezone.now())
    make_limit(cast.acme, units=12)
    make_limit(cast.acme, cast.llm, units=16)
    make_wall(plain, cast.llm, hard=12, used=13, read_at=timezone.now())

    bodies = {name: caller(name).get(URL, asked(cast)).json() for name in ("carol", "ann")}

    assert {(body["fits"], body["code"]) for body in bodies.values()} == {
        (False, "cluster_quota_full")
    }
    assert {
        (body["blocked_by"], body["expected_start"], body["warning"]) for body in bodies.values()
    } == {(None, None, None)}
    refused = "1 Large may not start: the quota in cluster plain has no room for as many"
    waits = "Pods that do not run yet take 13 there. When it will have room is not known."
    assert bodies["ann"]["message"] == f"{refused} (llm uses 13 of 12). {waits}"
    assert bodies["carol"]["message"] == f"{refused} (llm). {waits}"
    assert [bodies[name]["free_units"] for name in ("ann", "carol")] == [0, None]


def test_what_limits_and_quotas_refuse_both_has_no_time(cast: Cast, caller: Caller) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    see_size(plain, "nvidia.com/gpu", "large", at=timezone.now())
    limit = make_limit(cast.acme, cast.llm, units=0)
    give(limit, 4, begin_at=timezone.now() + timedelta(hours=5), end_at=None)
    quota_cap = make_wall(plain, cast.llm, hard=12, used=12, read_at=timezone.now())

    behind = caller("carol").get(URL, asked(cast)).json()
    EnforcementTarget.objects.filter(pk=quota_cap.pk).update(live_used={GPU: 11})
    beside = caller("carol").get(URL, asked(cast)).json()

    assert (behind["code"], behind["expected_start"]) == ("limit_reached", None)
    assert behind["message"] == (
        "1 Large may not start: the project llm holds 0 and has reserved 0 of 0. And the quota "
        "in cluster plain has no room for as many (llm). Pods that do not run yet "
        "take 12 there. When it will have room is not known."
    )
    assert beside["expected_start"]["basis"] == "known_changes"
    assert "quota" not in beside["message"]


def test_a_quota_not_read_for_long_bounds_nothing_and_that_is_reported(
    cast: Cast, caller: Caller
) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    see_size(plain, "nvidia.com/gpu", "large", at=timezone.now())
    make_limit(cast.acme, cast.llm, units=16)
    read_at = timezone.now() - timedelta(minutes=26)
    make_wall(plain, cast.llm, hard=12, used=12, read_at=read_at)

    body = caller("carol").get(URL, asked(cast)).json()

    assert (body["fits"], body["free_units"], body["warning"]) == (True, 16, "cluster_quota_stale")
    assert body["message"] == (
        "1 Large may start now. The quota of llm in cluster plain is not considered: "
        f"not read since {read_at:%Y-%m-%d %H:%M} UTC."
    )


def test_room_under_a_name_of_several_sizes_carries_a_warning(cast: Cast, caller: Caller) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=16)
    make_wall(plain, cast.llm, hard=12, used=9, read_at=timezone.now())

    body = caller("ann").get(URL, asked(cast)).json()

    assert (body["fits"], body["free_units"]) == (True, 3)
    assert body["warning"] == "cluster_quota_unclear"


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
@pytest.mark.parametrize("name", ["nobody", "mallory", "Carol"])
def test_a_user_without_a_role_in_the_organization_does_not_exist(
    cast: Cast, caller: Caller, name: str
) -> None:
    answer = caller("carol").get(URL, asked(cast, user=name))

    assert answer.status_code == 404
    assert (answer.json()["code"], answer.json()["field"]) == ("not_found", "user")
    assert answer.json()["remedy"] == "Give the person a role in the project first."
    assert caller("carol").get(URL, asked(cast, user="carol")).status_code == 200


@pytest.mark.usefixtures("hopper")
def test_a_model_nobody_knows_is_refused_with_the_known_ones(cast: Cast, caller: Caller) -> None:
    answer = caller("carol").get(URL, asked(cast, model_group="H1OO"))

    assert answer.status_code == 422
    (wrong,) = answer.json()["problems"]
    assert (wrong["field"], wrong["code"]) == ("model_group", "model_group_unknown")
    assert "Use one of: A100, H100;" in wrong["message"]
    assert caller("carol").get(URL, asked(cast, model_group="H100")).status_code == 200


@pytest.mark.usefixtures("hopper")
def test_another_tenants_project_does_not_exist(cast: Cast, caller: Caller) -> None:
    assert caller("mallory").get(URL, asked(cast)).status_code == 404
    assert caller("ann").get(URL, asked(cast)).status_code == 200


READS_ORGANIZATION = ("alice", "dora", "frank", "ann")
READS_PROJECT = ("carol", "bob")
HIDDEN = {
    "id": None,
    "scope": "organization",
    "holder": "acme",
    "model_group": "",
    "cluster": "",
    "is_visible": False,
    "limit_units": None,
    "used_units": None,
    "reserved_units": None,
    "free_units": None,
    "is_allowance_used": None,
}


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("name", READS_PROJECT)
def test_who_reads_only_the_project_learns_which_scope_binds_and_not_its_figures(
    cast: Cast, caller: Caller, name: str
) -> None:
    ceiling = make_limit(cast.acme, units=3)
    QuotaLimit.objects.filter(project=cast.llm).update(limit_units=777)
    give(ceiling, 2, begin_at=timezone.now() + timedelta(hours=5), end_at=None)

    answer = caller(name).get(URL, asked(cast))

    body = answer.json()
    assert (body["fits"], body["code"], body["free_units"]) == (False, "limit_reached", None)
    assert body["message"] == (
        "1 Large may not start: the organization acme has no room left for as many."
    )
    assert body["blocked_by"] == HIDDEN
    assert body["limits"][0] == HIDDEN
    assert (body["limits"][1]["scope"], body["limits"][1]["free_units"]) == ("project", 774)
    assert body["expected_start"]["p50"] is not None
    assert body["expected_start"]["pods_without_estimate"] is None
    assert str(ceiling.pk) not in answer.content.decode()


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("name", READS_ORGANIZATION)
def test_who_reads_the_organization_is_reported_its_figures(
    cast: Cast, caller: Caller, name: str
) -> None:
    ceiling = make_limit(cast.acme, units=3)
    give(ceiling, 2, begin_at=timezone.now() + timedelta(hours=5), end_at=None)

    body = caller(name).get(URL, asked(cast)).json()

    assert body["free_units"] == 0
    assert body["message"] == (
        "1 Large may not start: the organization acme holds 3 and has reserved 0 of 3."
    )
    assert body["blocked_by"] == {
        **HIDDEN,
        "id": str(ceiling.pk),
        "is_visible": True,
        "limit_units": 3,
        "used_units": 3,
        "reserved_units": 0,
        "free_units": 0,
        "is_allowance_used": False,
    }
    assert body["expected_start"]["pods_without_estimate"] == 1


@pytest.mark.usefixtures("hopper")
def test_free_units_are_reported_as_far_as_ones_own_limits_bound_them(
    cast: Cast, caller: Caller
) -> None:
    ceiling = make_limit(cast.acme, units=100)
    wide = caller("carol").get(URL, asked(cast)).json()
    QuotaLimit.objects.filter(project=cast.llm).update(limit_units=200)
    tight = caller("carol").get(URL, asked(cast)).json()
    QuotaLimit.objects.filter(pk=ceiling.pk).update(limit_units=None)
    unlimited = caller("carol").get(URL, asked(cast)).json()

    assert [body["fits"] for body in (wide, tight, unlimited)] == [True, True, True]
    assert [body["free_units"] for body in (wide, tight, unlimited)] == [1, None, 197]
    assert [body["limits"][0] for body in (wide, tight, unlimited)] == [HIDDEN, HIDDEN, HIDDEN]


@pytest.mark.usefixtures("hopper")
def test_forecasts_are_listed_for_the_limits_one_sees(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=9)
    make_limit(cast.umbrella, cast.virus, units=2)
    narrow = make_limit(cast.acme, cast.vision, units=3)
    QuotaLimit.objects.filter(pk=narrow.pk).update(model_group="H100")

    (reported,) = caller("carol").get(FORECASTS).json()["results"]
    every = caller("ann").get(FORECASTS).json()["results"]
    one = caller("ann").get(FORECASTS, {"project": str(cast.virus.pk)}).json()["results"]

    assert reported == {
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
