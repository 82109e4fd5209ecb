"""What the quotas of namespaces leave of a size."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.caps import (
    ClusterConstraints,
    ConstrainedCluster,
    NamespaceCap,
    believed,
    cap_of,
    certain_headroom_of,
    cluster_constraints,
    headroom_of,
    is_full,
    stale_text,
    waiting_units,
)
from quotas.domain.enforcement.resource_quota import OPEN_UNITS
from quotas.domain.headroom.start import (
    FullCaps,
    StartCode,
    StartVerdict,
    bound_by_caps,
    start_text,
    visible_free_units,
)

LARGE = frozenset({GPUSize.LARGE})
GPU = "requests.nvidia.com/gpu"
FULL = NamespaceCap("llm-train", 0, 0, hard_units=12, used_units=16)
READ_AT = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
OLD = NamespaceCap("llm-train", None, None, unread_since=READ_AT)
FITS = StartVerdict(StartCode.FITS, 6)
headrooms = st.none() | st.integers(min_value=0, max_value=20)


def large(hard: dict[str, int], used: dict[str, int], **sizes: frozenset[GPUSize]) -> NamespaceCap:
    known = {name.replace("_", "/"): found for name, found in sizes.items()}
    known = known or {"nvidia.com/gpu": LARGE}
    return cap_of("llm-train", GPUSize.LARGE, sizes=known, hard=hard, used=used)


def bound(verdict: StartVerdict, *quota_caps: NamespaceCap, units: int = 2) -> StartVerdict:
    return bound_by_caps(verdict, quota_caps, units=units, cluster="hopper", running_units=10)


def test_a_wall_leaves_what_is_not_used_and_never_less_than_nothing() -> None:
    assert large({GPU: 12}, {GPU: 9}) == NamespaceCap("llm-train", 3, 3, 12, 9)
    assert large({GPU: 12}, {GPU: 16}) == FULL
    assert large({GPU: 12}, {}) == NamespaceCap("llm-train", 12, 12, 12, 0)


def test_a_wall_that_says_no_number_holds_nothing_back() -> None:
    assert large({}, {}).headroom_units is None
    assert large({GPU: OPEN_UNITS}, {GPU: 3}) == NamespaceCap("llm-train", None, None)
    assert large({GPU: 1}, {}, a_gpu=frozenset({GPUSize.SMALL})).headroom_units is None


def test_of_several_resources_the_roomiest_decides() -> None:
    hard, used = {"requests.a/gpu": 4, "requests.b/gpu": 4}, {"requests.a/gpu": 4}

    assert large(hard, used, a_gpu=LARGE, b_gpu=LARGE) == NamespaceCap("llm-train", 4, 4, 8, 4)


def test_room_under_a_name_of_several_sizes_is_not_sure() -> None:
    hard, used = {"requests.a/gpu": 4, "requests.b/gpu": 4}, {"requests.a/gpu": 3}
    several = frozenset(GPUSize)

    uncertain = large(hard, used, a_gpu=LARGE, b_gpu=several)

    assert uncertain == NamespaceCap("llm-train", 4, 1, 8, 3, is_sure=False)
    assert large(hard, used, b_gpu=several).sure_units == 0
    assert waiting_units([uncertain], running_units=1) is None


def test_a_device_class_is_held_back_only_where_both_its_keys_have_numbers() -> None:
    claims, implicit = (
        "h100.deviceclass.resource.k8s.io/devices",
        "requests.deviceclass.resource.kubernetes.io/h100",
    )
    sizes = {"claim/h100": LARGE}

    both = cap_of("ns", GPUSize.LARGE, sizes=sizes, hard={claims: 2, implicit: 1}, used={})
    one = cap_of("ns", GPUSize.LARGE, sizes=sizes, hard={claims: 2}, used={})

    assert (both.headroom_units, one.headroom_units) == (2, None)


def test_one_namespace_with_room_is_enough_and_one_without_a_number_too() -> None:
    roomy, open_one = NamespaceCap("llm-dev", 3, 1), NamespaceCap("llm-open", None, None)

    assert (headroom_of([FULL, roomy]), certain_headroom_of([FULL, roomy])) == (3, 1)
    assert (headroom_of([FULL, open_one]), certain_headroom_of([FULL, open_one])) == (None, None)
    assert (headroom_of([]), is_full([])) == (None, False)


def test_full_is_what_holds_something_and_not_what_was_granted_nothing() -> None:
    assert is_full([FULL])
    assert not is_full([NamespaceCap("llm-train", 0, 0)])
    assert not is_full([FULL, NamespaceCap("llm-dev", 1, 1)])


def test_what_counts_and_does_not_run_waits() -> None:
    assert waiting_units([FULL], running_units=10) == 6
    assert waiting_units([FULL], running_units=20) == 0


def test_no_more_is_promised_than_the_walls_leave() -> None:
    assert bound(FITS) == FITS
    assert bound(FITS, NamespaceCap("llm-train", 2, 2)) == StartVerdict(StartCode.FITS, 2)
    assert bound(FITS, NamespaceCap("llm-train", 9, 9)) == FITS
    ungoverned = StartVerdict(StartCode.FITS_UNGOVERNED, None)
    assert bound(ungoverned, NamespaceCap("llm-train", 2, 2)).free_units == 2
    full = FullCaps("hopper", (FULL,), 6)
    assert bound(FITS, FULL) == StartVerdict(StartCode.CLUSTER_QUOTA_FULL, 0, full=full)


@pytest.mark.parametrize("code", [StartCode.LIMIT_REACHED, StartCode.ALLOWANCE_USED])
def test_what_limits_refuse_keeps_its_reason_and_gets_the_walls_beside_it(code: StartCode) -> None:
    full = FullCaps("hopper", (FULL,), 6)

    assert bound(StartVerdict(code, 1), FULL) == StartVerdict(code, 0, full=full)
    assert bound(StartVerdict(code, 1), NamespaceCap("llm-train", 2, 2)) == StartVerdict(code, 1)


@pytest.mark.parametrize("code", [StartCode.SUSPENDED, StartCode.NOTHING_GRANTED])
def test_what_nobody_may_start_is_not_about_walls(code: StartCode) -> None:
    assert bound(StartVerdict(code, 0), FULL) == StartVerdict(code, 0)


@given(free=headrooms, headroom=headrooms, units=st.integers(min_value=1, max_value=20))
def test_it_fits_exactly_when_limits_and_walls_have_room(
    free: int | None, headroom: int | None, units: int
) -> None:
    fits = free is None or units <= free
    before = StartVerdict(StartCode.FITS if fits else StartCode.LIMIT_REACHED, free)

    after = bound(before, NamespaceCap("ns", headroom, headroom), units=units)

    assert after.fits == (fits and (headroom is None or units <= headroom))
    assert after.free_units == min((u for u in (free, headroom) if u is not None), default=None)


def test_the_words_name_the_namespace_and_hide_its_figures_from_who_may_not_know() -> None:
    verdict = bound(FITS, FULL)

    assert start_text(verdict, size="large", units=2) == (
        "2 Large may not start: the quota in cluster hopper has no room for as many "
        "(llm-train uses 16 of 12). Pods that do not run yet take 6 there. When it will have room "
        "is not known."
    )
    hidden = start_text(verdict, size="large", units=2, hidden_scopes={"organization"})
    assert "(llm-train)" in hidden
    assert "12" not in hidden
    calm = bound(FITS, NamespaceCap("llm-train", 1, 1, 9, 8))
    assert start_text(calm, size="large", units=2).endswith(
        "(llm-train uses 8 of 9). When it will have room is not known."
    )
    assert visible_free_units(verdict, []) == 0


def test_what_was_read_too_long_ago_bounds_nothing_and_says_since_when() -> None:
    assert believed(FULL, read_at=READ_AT, is_old=False) == FULL
    assert believed(FULL, read_at=READ_AT, is_old=True) == OLD
    assert (headroom_of([OLD]), certain_headroom_of([OLD]), is_full([OLD])) == (None, None, False)
    nothing = NamespaceCap("llm-open", None, None)
    assert believed(nothing, read_at=READ_AT, is_old=True) == nothing


def test_the_words_say_what_is_not_considered_and_since_when_none_of_it_was_read() -> None:
    newer = NamespaceCap("llm-dev", None, None, unread_since=READ_AT.replace(hour=9))

    assert stale_text([FULL], cluster="hopper") == ""
    assert stale_text([FULL, OLD], cluster="hopper") == (
        "The quota of llm-train in cluster hopper is not considered: "
        "not read since 2026-11-01 08:30 UTC."
    )
    assert stale_text([OLD, newer], cluster="hopper") == (
        "The quotas of llm-train, llm-dev in cluster hopper are not considered: "
        "not read since 2026-11-01 09:30 UTC."
    )


ROOMY = NamespaceCap("llm-dev", 3, 3, hard_units=4, used_units=1)
TIGHT = ClusterConstraints(constrained=(ConstrainedCluster("hopper", 3),))


@pytest.mark.parametrize(
    ("quota_caps", "free_units", "reported"),
    [
        ([ROOMY], 4, TIGHT),
        ([ROOMY], None, TIGHT),
        ([ROOMY], 3, ClusterConstraints()),
        ([ROOMY, ROOMY], 6, ClusterConstraints()),
        ([FULL, ROOMY], 4, TIGHT),
        ([ROOMY, NamespaceCap("llm-open", None, None)], 4, ClusterConstraints()),
        ([FULL], 4, ClusterConstraints(full=("hopper",))),
        ([OLD, FULL], 4, ClusterConstraints(stale=("hopper",))),
        ([], 4, ClusterConstraints()),
    ],
)
def test_a_cluster_is_reported_as_full_or_tight_or_unread(
    quota_caps: list[NamespaceCap], free_units: int | None, reported: ClusterConstraints
) -> None:
    assert (
        cluster_constraints({"hopper": quota_caps}, is_limited=True, free_units=free_units)
        == reported
    )


def test_without_a_limit_there_is_nothing_to_leave_less_than() -> None:
    places = {"hopper": [ROOMY], "ampere": [FULL]}

    found = cluster_constraints(places, is_limited=False, free_units=None)

    assert found == ClusterConstraints(full=("ampere",))
