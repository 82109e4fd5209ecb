"""The demo's own quota request: asked and approved once, whatever visitors do beside it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from quotas.models import QuotaLimit, QuotaRequest
from simulator.cluster.demo_tenancy import ORGANIZATIONS
from simulator.demo.asking import LEFT, Asked, DemoRefusedError, ask_for_quota, demo_tokens
from simulator.demo.limit_seeding import seed_limits
from simulator.demo.plan import LIMITS, QUOTA_REQUEST
from simulator.demo.seeding import seed_organization
from tenants.domain.actors import system_actor
from tenants.models import IdempotencyRecord, Project

pytestmark = pytest.mark.django_db

ACTOR = system_actor("demo.seed")
MEDIUM = {"size": "medium", "requested_units": 8, "justification": "Until the paper is out."}


def send(path: str, *, token: str, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send as the demo does, through the same endpoints but without a socket."""
    answer = APIClient().post(
        f"/api/v1/{path}",
        body,
        format="json",
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": key},
    )
    if answer.status_code >= 400:
        text = answer.content.decode()
        raise DemoRefusedError(path, status=answer.status_code, text=text)
    found: dict[str, Any] = answer.json()
    return found


class Demo:
    """A seeded Northwind, and a demo that may be started again and again."""

    def __init__(self, folder: Path) -> None:
        at = datetime.now(UTC)
        plan = next(plan for plan in ORGANIZATIONS if plan.slug == QUOTA_REQUEST.organization)
        seed_organization(plan, "unused password", actor=ACTOR, at=at)
        own = [limit for limit in LIMITS if limit.organization == plan.slug]
        seed_limits(own, actor=ACTOR, at=at)
        self.folder = folder
        self.project = Project.objects.get(organization__slug=plan.slug, slug="llm")

    def start(self) -> Asked:
        return ask_for_quota(send, demo_tokens(self.folder), folder=self.folder)

    def visit(self, username: str, path: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON.
        token = demo_tokens(self.folder)[username]
        return send(path, token=token, key=f"visitor {path}".replace(" ", "-"), body=body)

    def ask(self, **further: Any) -> QuotaRequest:  # noqa: ANN401 - JSON.
        body = {"project": str(self.project.pk), **MEDIUM, **further}
        asked = self.visit("lukas", "quota-requests/", **body)
        return QuotaRequest.objects.get(pk=asked["id"])

    def limit(self, size: str) -> int | None:
        return QuotaLimit.objects.get(project=self.project, size=size).limit_units

    def own(self) -> QuotaRequest:
        return QuotaRequest.objects.get(justification=QUOTA_REQUEST.justification)


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def test_the_first_start_asks_as_lukas_and_approves_as_nora(demo: Demo) -> None:
    asked = demo.start()

    assert (asked.state, asked.note) == ("approved", "")
    own = demo.own()
    assert own.decided_by == User.objects.get(username="nora")
    assert (own.requested_by.username, demo.limit("large")) == ("lukas", 16)


def test_a_later_start_asks_nothing_more_also_when_the_answers_are_purged(demo: Demo) -> None:
    demo.start()
    IdempotencyRecord.objects.all().delete()

    assert demo.start() == Asked(demo.project, "approved")

    assert QuotaRequest.objects.count() == 1


def test_a_request_of_a_demo_that_did_not_remember_it_is_found_by_its_key(demo: Demo) -> None:
    demo.start()
    (demo.folder / "quota-request.json").unlink()
    demo.ask()

    assert demo.start() == Asked(demo.project, "approved")

    assert QuotaRequest.objects.count() == 2


def test_an_open_request_of_a_visitor_stays_open_at_a_later_start(demo: Demo) -> None:
    demo.start()
    visitors = demo.ask()

    assert demo.start() == Asked(demo.project, "approved")

    visitors.refresh_from_db()
    assert (visitors.state, visitors.decided_by) == ("submitted", None)
    assert demo.limit("medium") == 6


def test_an_open_request_of_a_visitor_does_not_keep_the_first_start_from_asking(
    demo: Demo,
) -> None:
    visitors = demo.ask()

    assert demo.start() == Asked(demo.project, "approved")

    visitors.refresh_from_db()
    assert (visitors.state, demo.own().state) == ("submitted", "approved")


@pytest.mark.parametrize(
    ("username", "verb", "state", "medium"),
    [
        ("nora", "approve", "approved", 8),
        ("nora", "reject", "rejected", 6),
        ("lukas", "cancel", "cancelled", 6),
    ],
)
def test_what_became_of_a_visitors_request_stays(
    demo: Demo, username: str, verb: str, state: str, medium: int
) -> None:
    demo.start()
    visitors = demo.ask()
    demo.visit(username, f"quota-requests/{visitors.pk}/{verb}/", note="Mine.")

    assert demo.start() == Asked(demo.project, "approved")

    visitors.refresh_from_db()
    assert (visitors.state, visitors.decision_note) == (state, "Mine.")
    assert demo.limit("medium") == medium


def cut_off(demo: Demo) -> QuotaRequest:
    """Start the demo and let it end after it has asked, and before it approves."""

    def post(path: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - As sent.
        if path.endswith("/approve/"):
            raise KeyboardInterrupt
        return send(path, **given)

    with pytest.raises(KeyboardInterrupt):
        ask_for_quota(post, demo_tokens(demo.folder), folder=demo.folder)
    return demo.own()


def test_a_demo_cut_off_between_asking_and_approving_goes_on(demo: Demo) -> None:
    own = cut_off(demo)
    assert own.state == "submitted"

    assert demo.start() == Asked(demo.project, "approved")

    assert demo.own().pk == own.pk


@pytest.mark.parametrize(
    ("username", "verb", "state"),
    [("nora", "reject", "rejected"), ("lukas", "cancel", "cancelled")],
)
def test_what_a_visitor_decided_of_the_demos_own_request_stays_and_is_reported(
    demo: Demo, username: str, verb: str, state: str
) -> None:
    own = cut_off(demo)
    demo.visit(username, f"quota-requests/{own.pk}/{verb}/", note="No.")

    assert demo.start() == Asked(demo.project, state, note=f"{LEFT}: it is {state}.")

    assert (demo.own().state, demo.limit("large")) == (state, 12)


def test_a_demos_own_request_that_a_visitor_approved_is_approved(demo: Demo) -> None:
    own = cut_off(demo)
    demo.visit("nora", f"quota-requests/{own.pk}/approve/", note="By hand.")

    assert demo.start() == Asked(demo.project, "approved")

    assert demo.own().decision_note == "By hand."


def test_an_approval_that_a_changed_limit_refuses_is_reported_in_one_line(demo: Demo) -> None:
    cut_off(demo)
    QuotaLimit.objects.filter(project=demo.project, size="large").update(limit_units=10)

    asked = demo.start()

    assert asked.state == "submitted"
    assert asked.note == f"{LEFT}: The limit is 10 now; it was 12 when this was requested."
    assert demo.start() == asked
    assert (demo.own().state, demo.limit("large")) == ("submitted", 10)


@pytest.mark.parametrize("username", ["lukas", "nora"])
def test_a_person_who_may_not_act_any_more_is_reported_in_one_line(
    demo: Demo, username: str
) -> None:
    User.objects.filter(username=username).update(is_active=False)

    asked = demo.start()

    assert asked.state == {"lukas": "refused", "nora": "submitted"}[username]
    assert asked.note.startswith(f"{LEFT}: ")
    assert (asked.note.count("\n"), demo.limit("large")) == (0, 12)
    assert demo_tokens(demo.folder)[username] == ""


def answering(status: int, text: str) -> Callable[..., dict[str, Any]]:
    def post(path: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401 - As sent.
        raise DemoRefusedError(path, status=status, text=text)

    return post


def test_a_service_that_fails_is_no_refusal(demo: Demo) -> None:
    with pytest.raises(DemoRefusedError) as failed:
        ask_for_quota(answering(500, "Oops"), demo_tokens(demo.folder), folder=demo.folder)

    assert str(failed.value) == "quota-requests/: 500 Oops"
    assert QuotaRequest.objects.count() == 0


@pytest.mark.parametrize("text", ["<html>", "[]", "{}"])
def test_a_refusal_without_a_problem_document_is_reported_by_its_status(
    demo: Demo, text: str
) -> None:
    asked = ask_for_quota(answering(404, text), demo_tokens(demo.folder), folder=demo.folder)

    assert asked == Asked(demo.project, "refused", note=f"{LEFT}: it was answered 404.")
