"""The page of enforcement: desired, applied, live and drift, and three buttons."""

import re

import pytest

from quotas.models import EnforcementTarget
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tests.quotas.admin.test_pages import (  # noqa: F401 - Fixtures used by name.
    enter,
    press,
    staff,
    without_menu,
)
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.enforcing import GPU, MIG, apply, refresh

URL = "/admin/quotas/enforcementtarget/"


@pytest.fixture
def live(cast: Cast) -> ReceivingCluster:
    bind(make_cluster(), "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8, burst_units=2)
    refresh()
    return SimulatedQuotaEnforcer.cluster("hopper")


def reported(page: str) -> str:
    """Return what a page says: no tags, and each run of spaces as one."""
    return re.sub(r"(<[^>]*>|\s)+", " ", page)


def target() -> EnforcementTarget:
    return EnforcementTarget.objects.get()


def test_chosen_namespaces_are_applied_again(cast: Cast, live: ReceivingCluster) -> None:
    page = press(enter(cast.frank), "enforcementtarget", "apply_targets", target().pk)

    assert "1 of 1 are applied." in page
    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}


def test_what_could_not_be_applied_is_reported(cast: Cast, live: ReceivingCluster) -> None:
    live.failure = "timeout"

    page = press(enter(cast.frank), "enforcementtarget", "apply_targets", target().pk)

    assert "0 of 1 are applied." in page
    assert target().state == "failed"


def test_other_managers_are_overwritten_in_chosen_namespaces(
    cast: Cast, live: ReceivingCluster
) -> None:
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
    apply()
    assert target().state == "conflict"

    page = press(enter(cast.frank), "enforcementtarget", "force_targets", target().pk)

    assert "1 of 1 are applied." in page
    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert (live.quotas["llm"].others, target().state) == ((), "applied")


def test_who_only_looks_overwrites_nothing(cast: Cast, live: ReceivingCluster) -> None:
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
    apply()

    press(enter(cast.ann), "enforcementtarget", "force_targets", target().pk)

    assert live.quotas["llm"].hard == {GPU: 64}
    assert target().state == "conflict"


def test_chosen_namespaces_are_read_again(cast: Cast, live: ReceivingCluster) -> None:
    apply()
    live.delete_by_hand("llm")

    page = press(enter(cast.frank), "enforcementtarget", "read_targets", target().pk)

    assert "1 were read; 1 had drifted." in page
    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}


def test_who_only_looks_has_no_buttons(cast: Cast, live: ReceivingCluster) -> None:
    press(enter(cast.ann), "enforcementtarget", "apply_targets", target().pk)

    assert live.quotas == {}
    assert "Apply again now" not in enter(cast.ann).get(URL).content.decode()


def test_a_target_shows_every_wall_and_other_peoples_quotas(
    cast: Cast, live: ReceivingCluster
) -> None:
    live.add_foreign("llm", "team-made", {GPU: 1})
    apply()

    page = enter(cast.ann).get(f"{URL}{target().pk}/change/").content.decode()

    for text in ("Nominal units", "Burst units, for preemptible pods", "team-made"):
        assert text in page
    assert "nvidia.com/gpu 1" in page


def test_the_list_is_short_enough_for_its_window(cast: Cast, live: ReceivingCluster) -> None:
    live.failure = "timeout"
    apply()
    EnforcementTarget.objects.update(last_error="The API server answered 503. " * 9)

    page = reported(enter(cast.ann).get(URL).content.decode())

    assert "llm LLM on hopper" in page
    assert "The API server answered 503. The API server answered 503. The API ser…" in page
    assert "answered 503. The API server answered 503. The API server answered 503." not in page


def test_nothing_is_reported_in_words(cast: Cast, live: ReceivingCluster) -> None:
    apply()

    page = reported(enter(cast.ann).get(f"{URL}{target().pk}/change/").content.decode())

    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert "Last error none" in page
    assert "Drift was written by -" in page
    assert "Suspended no" in page
    assert "Limit divided: The cluster is not set to enforce and to deny on failure." in page
    assert re.search(r"Next try at \d{4}-\d\d-\d\d \d\d:\d\d UTC", page)
    assert "[]" not in page


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(
    ("managers", "shown_as"),
    [(["kubectl-edit", "argo"], "kubectl-edit, argo"), ([], "nobody: an object was gone")],
)
def test_who_wrote_the_drift_is_named(cast: Cast, managers: list[str], shown_as: str) -> None:
    EnforcementTarget.objects.update(drifted_at=AT, drift_managers=managers, is_held=True)

    page = reported(enter(cast.ann).get(f"{URL}{target().pk}/change/").content.decode())

    assert f"Drift was written by {shown_as}" in page
    assert "Suspended yes: nothing new may start" in page


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=pending", 1),
        ("state=conflict", 0),
        ("drifted_at__isempty=0", 0),
        ("drifted_at__isempty=1", 1),
    ],
)
def test_the_list_is_filtered_by_state_and_drift(cast: Cast, query: str, found: int) -> None:
    page = enter(cast.ann).get(f"{URL}?{query}")

    assert page.context["cl"].result_count == found


@pytest.mark.usefixtures("live")
def test_the_list_is_filtered_by_organization(cast: Cast) -> None:
    def found(organization: object) -> int:
        page = enter(cast.ann).get(f"{URL}?project__organization__id__exact={organization}")
        return int(page.context["cl"].result_count)

    assert (found(cast.acme.pk), found(cast.umbrella.pk)) == (1, 0)
