"""Tests of what a cluster's description must fulfil."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.clusters import (
    admission_problems,
    alias_problems,
    hour_problems,
    resource_problems,
    scope_problems,
    selector_problems,
    url_problems,
    user_label_problems,
    watch_problems,
)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.just(["Hostname"]), max_size=64
    )
)
def test_a_map_of_names_to_lists_of_names_is_fine(aliases: dict[str, list[str]]) -> None:
    assert alias_problems("label_aliases", aliases) == ()


@pytest.mark.parametrize(
    "aliases",
    [
        {"hostname": []},
        {"hostname": "Hostname"},
        {"hostname": ["a-b"]},
        {"hostname": [1]},
        {"host name": ["Hostname"]},
        {"hostname": ["a"] * 17},
        {"hostname": ["a" * 201]},
    ],
)
def test_a_wrong_alias_is_reported_with_its_place(aliases: dict[str, object]) -> None:
    (problem,) = alias_problems("label_aliases", aliases)

    (name,) = aliases
    assert (problem.field, problem.code) == (f"label_aliases.{name}", "not_series_names")


def test_an_alias_of_any_length_is_neither_stored_nor_repeated() -> None:
    assert alias_problems("label_aliases", {"a" * 200: ["b" * 200]}) == ()

    (problem,) = alias_problems("label_aliases", {"a" * 100_000: ["b"]})

    assert (problem.field, problem.code) == ("label_aliases." + "a" * 200, "not_series_names")


def test_more_aliased_names_than_there_are_of_ours_are_refused() -> None:
    names = [f"name_{number}" for number in range(65)]

    assert alias_problems("metric_aliases", {name: ["b"] for name in names[:64]}) == ()
    (problem,) = alias_problems("metric_aliases", {name: ["b"] for name in names})

    assert (problem.field, problem.code) == ("metric_aliases", "too_many")


def test_aliases_that_are_no_map_are_refused() -> None:
    (problem,) = alias_problems("label_aliases", ["hostname"])

    assert problem.code == "not_a_map"


def test_resource_names_of_every_sharing_mode_are_fine() -> None:
    names = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "amd.com/gpu"]

    assert resource_problems(names) == ()


@pytest.mark.parametrize("name", ["gpu", "nvidia.com/", "/gpu", "nvidia.com/gpu ", 'a/"}', 7])
def test_a_name_that_is_no_extended_resource_is_reported_with_its_place(name: object) -> None:
    (problem,) = resource_problems(["nvidia.com/gpu", name])

    assert (problem.field, problem.code) == ("offered_resources.1", "not_a_resource_name")


def test_a_resource_named_twice_is_refused() -> None:
    (problem,) = resource_problems(["nvidia.com/gpu", "nvidia.com/gpu"])

    assert problem.field == "offered_resources.1"


def test_resources_are_a_list_and_not_endless() -> None:
    (text,) = resource_problems("nvidia.com/gpu")
    (many,) = resource_problems([f"nvidia.com/gpu{n}" for n in range(65)])

    assert (text.code, many.code) == ("not_a_list", "too_many")


def test_metering_begins_at_a_whole_hour() -> None:
    fine = hour_problems("metered_from", datetime(2026, 10, 1, tzinfo=UTC))
    (late,) = hour_problems("metered_from", datetime(2026, 10, 1, 0, 30, tzinfo=UTC))
    (naive,) = hour_problems("metered_from", datetime(2026, 10, 1))  # noqa: DTZ001 - Refused.

    assert fine == ()
    assert (late.code, naive.code) == ("not_a_whole_hour", "not_a_whole_hour")


@pytest.mark.parametrize(
    ("label", "value", "field"),
    [("cluster", "", "selector_value"), ("", "hopper", "selector_label")],
)
def test_half_a_selector_is_refused(label: str, value: str, field: str) -> None:
    (problem,) = selector_problems(label, value)

    assert (problem.field, problem.code) == (field, "half_a_selector")


def test_a_whole_selector_or_none_is_fine() -> None:
    assert selector_problems("cluster", "hopper") == selector_problems("", "") == ()


def test_pod_labels_are_reported_from_other_text() -> None:
    assert user_label_problems("") == user_label_problems("billing.example.com/user") == ()
    assert [p.code for p in user_label_problems('x"} or up{a="')] == ["not_a_label"]


def test_an_address_needs_a_scheme_that_is_spoken_there() -> None:
    fine = url_problems("kubernetes_url", "https://10.0.0.1:6443", schemes=("https",))
    (wrong,) = url_problems("kubernetes_url", "http://10.0.0.1:6443", schemes=("https",))

    assert fine == url_problems("kubernetes_url", "", schemes=("https",)) == ()
    assert (wrong.field, wrong.code) == ("kubernetes_url", "wrong_scheme")


@pytest.mark.parametrize(
    ("scope", "codes"),
    [("", []), ("research|a_b-c.d", []), ("a b", ["not_a_tenant"]), ("a\n", ["not_a_tenant"])],
)
def test_a_tenant_can_stand_in_a_header(scope: str, codes: list[str]) -> None:
    assert [problem.code for problem in scope_problems(scope)] == codes


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        ("https://10.0.0.1:6443", "env:CLUSTER_SECRET_HOPPER"),
        ("https://10.0.0.1:6443", ""),
        ("", "in-cluster"),
        ("", "kubeconfig:hopper/kubeconfig"),
    ],
)
def test_a_cluster_that_can_be_reached_may_be_watched(url: str, reference: str) -> None:
    assert not watch_problems(is_watched=True, kubernetes_url=url, credential_reference=reference)


@pytest.mark.parametrize("reference", ["", "env:CLUSTER_SECRET_HOPPER", "file:hopper/token"])
def test_a_cluster_without_an_address_cannot_be_watched(reference: str) -> None:
    (wrong,) = watch_problems(is_watched=True, kubernetes_url="", credential_reference=reference)

    assert (wrong.field, wrong.code) == ("is_watched", "not_reachable")
    assert not watch_problems(is_watched=False, kubernetes_url="", credential_reference=reference)


@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_only_a_watched_cluster_admits(mode: str) -> None:
    (wrong,) = admission_problems(admission_mode=mode, is_watched=False, trusted_controllers=[])

    assert (wrong.field, wrong.code) == ("admission_mode", "not_watched")
    assert not admission_problems(admission_mode=mode, is_watched=True, trusted_controllers=[])
    assert not admission_problems(admission_mode="off", is_watched=False, trusted_controllers=[])


@pytest.mark.parametrize(
    ("controllers", "field", "code"),
    [
        ("system:admin", "trusted_controllers", "not_a_list"),
        (7, "trusted_controllers", "not_a_list"),
        ([f"c-{n}" for n in range(101)], "trusted_controllers", "too_many"),
        (["ok", " "], "trusted_controllers.1", "not_a_user_name"),
        (["ok", 7], "trusted_controllers.1", "not_a_user_name"),
        (["ok", "ok"], "trusted_controllers.1", "not_a_user_name"),
        (["x" * 254], "trusted_controllers.0", "not_a_user_name"),
    ],
)
def test_a_trusted_controller_is_a_user_name_once(
    controllers: object, field: str, code: str
) -> None:
    (wrong,) = admission_problems(
        admission_mode="off", is_watched=True, trusted_controllers=controllers
    )

    assert (wrong.field, wrong.code) == (field, code)
