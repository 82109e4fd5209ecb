"""Admin pages of limits, grants and suspensions: readable, and written through the services."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import QuotaGrant, QuotaLimit, QuotaSuspension
from quotas.services.limits.suspensions import suspend_tenant
from tenants.domain.actors import system_actor
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_grant, make_limit

LIMITS = "/admin/quotas/quotalimit/"
GRANTS = "/admin/quotas/quotagrant/"
SUSPENSIONS = "/admin/quotas/quotasuspension/"
NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    """Leave the menu, which spans the apps, to unfold."""
    with override_settings(UNFOLD={}):
        yield


@pytest.fixture(autouse=True)
def staff(cast: Cast) -> None:  # noqa: ARG001 - The cast comes first.
    User.objects.update(is_staff=True)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page_of(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def press(client: Client, url: str, button: str, pk: object) -> str:
    """Choose one row and press a button; return the page that follows."""
    answer = client.post(url, {"action": button, "_selected_action": str(pk)}, follow=True)
    return answer.content.decode()


def terms(**further: str) -> dict[str, str]:
    return {"limit_units": "8", "burst_units": "0", "overcommit_percent": "100", **further}


def test_a_limit_is_reported_as_a_person_reads_it(cast: Cast) -> None:
    hopper = make_cluster()
    narrow = make_limit(
        cast.acme, cast.llm, units=8, model_group="H100", cluster=hopper, burst_units=2
    )
    make_grant(narrow, 4, AT, NOW + DAY)
    make_limit(cast.acme, units=None, monthly_unit_hours=500, overcommit_percent=150)

    page = page_of(enter(cast.ann), LIMITS)

    assert "8 Large, H100 only, on hopper, +2 burst" in page
    assert "12 (+4 granted)" in page
    assert re.search(r">\s*unlimited\s*<", page)
    assert "unlimited Large" in page
    assert "150 %" in page
    assert "500" in page


def test_a_suspended_limit_is_marked(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm)
    suspend(cast, source="budget")

    assert ">suspended<" in "".join(page_of(enter(cast.ann), LIMITS).split())


def suspend(cast: Cast, **further: object) -> QuotaSuspension:
    given = {"organization": cast.acme, "reason": "Arrears.", "at": AT, **further}
    return suspend_tenant(**given, actor=system_actor("billing"))  # type: ignore[arg-type]


def add_form(cast: Cast, **further: str) -> dict[str, str]:
    return {
        "scope": "project",
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "user": "",
        "size": "large",
        "model_group": "H100",
        "cluster": "",
        **terms(**further),
    }


def test_a_limit_with_a_selector_is_added(cast: Cast) -> None:
    enter(cast.frank).post(f"{LIMITS}add/", add_form(cast, burst_units="3"))

    limit = QuotaLimit.objects.get()
    assert (limit.model_group, limit.cluster, limit.burst_units) == ("H100", None, 3)
    assert audit_actions() == ["quotas:limit:set"]


@pytest.mark.parametrize(
    ("units", "switch", "reported"),
    [
        ("", "", "Enter a number, or switch unlimited on."),
        ("8", "on", "Clear the number, or switch unlimited off."),
        ("-1", "", "greater than or equal to 0"),
    ],
)
def test_unlimited_is_a_switch_and_never_an_empty_field(
    cast: Cast, units: str, switch: str, reported: str
) -> None:
    form = add_form(cast, limit_units=units, **({"is_unlimited": "on"} if switch else {}))

    answer = enter(cast.frank).post(f"{LIMITS}add/", form)

    assert reported in answer.content.decode()
    assert not QuotaLimit.objects.exists()


def test_a_limit_becomes_unlimited_and_a_number_again(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8, burst_units=2)
    client, url = enter(cast.frank), f"{LIMITS}{limit.pk}/change/"

    client.post(url, terms(limit_units="", is_unlimited="on", burst_units="2"))
    limit.refresh_from_db()
    unlimited, page = limit.limit_units, page_of(client, url)
    client.post(url, terms(limit_units="5", burst_units="2"))
    limit.refresh_from_db()

    assert unlimited is None
    (switch,) = re.findall(r'<input[^>]*name="is_unlimited"[^>]*>', page)
    assert " checked" in switch
    assert (limit.limit_units, limit.burst_units, limit.generation) == (5, 2, 3)


def test_a_grant_is_made_reported_and_ended(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    client = enter(cast.frank)
    friday = NOW + 4 * DAY

    client.post(
        f"{GRANTS}add/",
        {
            "limit": str(limit.pk),
            "units": "4",
            "valid_until_0": f"{friday:%Y-%m-%d}",
            "valid_until_1": "12:00:00",
            "note": "For the demo.",
        },
    )
    grant = QuotaGrant.objects.get()
    page = page_of(client, GRANTS)
    shown = page_of(client, f"{GRANTS}{grant.pk}/change/")
    ended = press(client, GRANTS, "end_grants", grant.pk)

    grant.refresh_from_db()
    assert (grant.units, grant.note, grant.version) == (4, "For the demo.", 2)
    assert "+4" in page
    assert "LLM: 8 large" in page
    assert "in force" in page
    assert "For the demo." in shown
    assert "is ended." in ended
    assert audit_actions() == ["quotas:grant:make", "quotas:grant:end"]


def test_a_grant_that_cannot_be_is_refused_beside_its_field(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    client = enter(cast.frank)

    too_few = client.post(f"{GRANTS}add/", {"limit": str(limit.pk), "units": "-9"})
    nothing = client.post(f"{GRANTS}add/", {"limit": str(limit.pk), "units": "0"})
    nowhere = client.post(f"{GRANTS}add/", {"limit": "", "units": "1"})

    assert "1 too few" in too_few.content.decode()
    assert "This field is required." in nowhere.content.decode()
    assert "Send a whole number of units" in nothing.content.decode()
    assert not QuotaGrant.objects.exists()


def test_half_a_loan_is_not_ended_by_the_button(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme), 1, AT, NOW + DAY, reason="loan", reference="loan-1")

    page = press(enter(cast.frank), GRANTS, "end_grants", grant.pk)

    grant.refresh_from_db()
    assert "End the loan; both of its grants end with it." in page
    assert grant.version == 1


def test_a_tenant_is_suspended_reported_and_resumed(cast: Cast) -> None:
    client = enter(cast.dora)

    client.post(
        f"{SUSPENSIONS}add/",
        {"organization": str(cast.acme.pk), "project": "", "reason": "Arrears."},
    )
    suspension = QuotaSuspension.objects.get()
    page = page_of(client, SUSPENSIONS)
    shown = page_of(client, f"{SUSPENSIONS}{suspension.pk}/change/")
    resumed = press(client, SUSPENSIONS, "resume", suspension.pk)

    suspension.refresh_from_db()
    assert "all projects" in page
    assert "until resumed" in page
    assert "Arrears." in shown
    assert "is resumed." in resumed
    assert suspension.end_at is not None
    assert audit_actions() == ["quotas:suspension:suspend", "quotas:suspension:resume"]


def test_who_or_which_rule_suspended_is_named(cast: Cast) -> None:
    by_rule = suspend(cast, source="arrears")
    suspend_tenant(
        organization=cast.acme,
        project=cast.llm,
        reason="Mining.",
        actor=actor_of(cast.dora),
        at=AT,
    )
    QuotaSuspension.objects.create(organization=cast.umbrella, reason="Old.", begin_at=AT)
    client = enter(cast.ann)

    pages = [page_of(client, f"{SUSPENSIONS}{path}") for path in ("", f"{by_rule.pk}/change/")]

    listed, shown = (re.sub(r"(<[^>]*>|\s)+", " ", page) for page in pages)
    assert "Arrears. arrears rule (billing) 2026-11-02 09:00 UTC until resumed" in listed
    assert "Mining. dora 2026-11-02 09:00 UTC until resumed" in listed
    assert "Old. not recorded 2026-11-02 09:00 UTC until resumed" in listed
    assert "Requested by arrears rule (billing)" in shown
    assert "a person" not in listed


def test_an_auditor_looks_and_changes_nothing(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme), 1, AT, NOW + DAY)
    suspension = suspend(cast)
    client = enter(cast.ann)

    press(client, GRANTS, "end_grants", grant.pk)
    press(client, SUSPENSIONS, "resume", suspension.pk)

    assert client.get(f"{SUSPENSIONS}add/").status_code == 403
    grant.refresh_from_db()
    suspension.refresh_from_db()
    assert (grant.version, suspension.end_at) == (1, None)


def test_lists_cost_no_statement_per_row(cast: Cast, django_assert_max_num_queries: object) -> None:
    limits = [make_limit(cast.acme, cast.llm, cast.carol, size=s) for s in ("small", "large")]
    limits += [make_limit(cast.acme, cast.vision, size=s) for s in ("small", "medium", "large")]
    for limit in limits:
        make_grant(limit, 1)
        make_grant(limit, 2)
    for source in ("budget", "arrears", "audit", ""):
        suspend(cast, source=source)
    client = enter(cast.frank)

    for url in (LIMITS, GRANTS, SUSPENSIONS):
        with django_assert_max_num_queries(14):  # type: ignore[operator]
            page_of(client, url)
