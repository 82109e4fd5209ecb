"""Admin pages of isolation policies: forms and buttons go through the services."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import IsolationPolicy
from tests.support.cast import Cast
from tests.support.quotas.builders import audit_actions, make_policy

URL = "/admin/quotas/isolationpolicy/"


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    with override_settings(UNFOLD={}):
        yield


def enter(user: User) -> Client:
    user.is_staff = True
    user.save()
    client = Client()
    client.force_login(user)
    return client


def form_of(cast: Cast, **further: object) -> dict[str, object]:
    return {
        "organization": str(cast.acme.pk),
        "project": "",
        "work_kind": "",
        "modes": ["whole", "mig"],
        "default_kind": "inference",
        **further,
    }


def test_a_policy_is_set_changed_and_removed_through_the_services(cast: Cast) -> None:
    client = enter(cast.frank)

    client.post(f"{URL}add/", form_of(cast))
    policy = IsolationPolicy.objects.get()
    client.post(
        f"{URL}{policy.pk}/change/", {"modes": ["mig"], "allow_shared_with_other_tenants": "on"}
    )
    policy.refresh_from_db()
    page = client.post(
        URL, {"action": "remove_policies", "_selected_action": str(policy.pk)}, follow=True
    )

    assert (policy.modes, policy.allow_shared_with_other_tenants, policy.version) == (
        ["mig"],
        True,
        2,
    )
    assert "is removed." in page.content.decode()
    assert not IsolationPolicy.objects.exists()
    assert audit_actions() == [
        "quotas:isolation:set",
        "quotas:isolation:change",
        "quotas:isolation:remove",
    ]


def test_a_refused_policy_is_reported_beside_its_field(cast: Cast) -> None:
    answer = enter(cast.frank).post(
        f"{URL}add/", form_of(cast, work_kind="training", default_kind="training")
    )

    assert "Only a policy for any kind of work has a default kind." in answer.content.decode()
    assert not IsolationPolicy.objects.exists()


def test_the_list_shows_modes_and_kind_in_words(cast: Cast) -> None:
    make_policy(cast.acme, modes=("whole", "mig"))
    make_policy(cast.umbrella, cast.virus, modes=(), work_kind="training")

    page = enter(cast.ann).get(f"{URL}?q=a").content.decode()

    assert "whole, mig" in page
    assert "nothing" in page
    assert "Training" in page


def test_a_stored_policy_is_shown_with_its_boxes_ticked(cast: Cast) -> None:
    policy = make_policy(cast.acme, modes=("mig",))

    page = enter(cast.frank).get(f"{URL}{policy.pk}/change/").content.decode()

    boxes = re.findall(r'<input[^>]*name="modes" value="([^"]*)"[^>]*>', page)
    ticked = re.findall(r'<input[^>]*name="modes" value="([^"]*)"[^>]* checked>', page)
    assert boxes == ["dedicated", "whole", "mig", "mps", "time-slicing"]
    assert ticked == ["mig"]


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_a_role_of_one_organization_opens_no_page(cast: Cast, name: str) -> None:
    assert enter(getattr(cast, name)).get(URL).status_code == 403
