"""A list action over several rows: neither a refusal nor a fault of one stops the others."""

import pytest
from django.contrib.messages import get_messages
from django.db import OperationalError

from tenants.models import Project, SweepCrash
from tenants.services import organizations
from tests.support.builders import make_project
from tests.support.cast import Cast
from tests.support.tenants.desk import enter

LIST = "/admin/tenants/project/"


def test_a_busy_row_and_a_fault_are_reported_and_the_rest_is_done(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    slugs = ("busy", "faulty", "fine", "shut")
    rows = {slug: make_project(cast.acme, slug) for slug in slugs}
    Project.objects.filter(slug="shut").update(state="closed")
    close = organizations.close_project

    def close_project(*, project: Project, **rest: object) -> object:
        if project.slug == "busy":
            raise OperationalError("canceling statement due to lock timeout")
        if project.slug == "faulty":
            raise RuntimeError("a bug")
        return close(project=project, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(organizations, "close_project", close_project)

    answer = enter(cast.frank).post(
        LIST,
        {
            "action": "close_projects",
            "_selected_action": [str(row.pk) for row in rows.values()],
        },
    )

    assert answer.status_code == 302
    texts = "\n".join(str(message) for message in get_messages(answer.wsgi_request))
    assert "The database was busy; nothing of it was changed. Start again." in texts
    assert "the log has it as admin.action.failed." in texts
    assert "is closed already" in texts or texts.count("\n") == 3
    states = dict(Project.objects.filter(slug__in=slugs).values_list("slug", "state"))
    assert states == {"busy": "active", "faulty": "active", "fine": "closed", "shut": "closed"}
    crash = SweepCrash.objects.get()
    assert (crash.event, crash.last_key) == ("admin.action.failed", str(rows["faulty"].pk))
