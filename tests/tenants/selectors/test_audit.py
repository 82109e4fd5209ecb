"""Tests of reading the audit trail."""

from datetime import timedelta

import pytest

from tenants.domain.actors import system_actor
from tenants.selectors.audit import AuditFact, history_of
from tenants.services.audit import record
from tenants.services.organizations import update_project
from tests.support.builders import AT, make_organization, make_project

SEED = system_actor("seed")


@pytest.mark.django_db
def test_the_history_of_an_object_is_its_own_newest_first() -> None:
    llm, other = (make_project(make_organization(slug), "llm") for slug in ("acme", "umbrella"))
    for minutes, name in enumerate(("A", "B")):
        at = AT + timedelta(minutes=minutes)
        update_project(project=llm, changes={"name": name}, actor=SEED, at=at)
    update_project(project=other, changes={"name": "C"}, actor=SEED, at=AT)

    assert history_of(object_kind="project", object_id=llm.pk) == [
        AuditFact(
            AT + timedelta(minutes=1),
            "seed",
            "tenants:project:update",
            {"changed": {"name": ["A", "B"]}},
        ),
        AuditFact(AT, "seed", "tenants:project:update", {"changed": {"name": ["LLM", "A"]}}),
    ]


@pytest.mark.usefixtures("committed_db")
def test_an_entry_outside_the_transaction_of_its_call_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        record(actor=SEED, at=AT, action="a:b:c", object_kind="x", object_id="1")

    assert history_of(object_kind="x", object_id="1") == []
