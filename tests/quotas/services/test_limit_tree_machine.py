"""The limit tree against a plain dictionary, over random sequences of changes."""

from typing import ClassVar

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from quotas.domain.errors import QuotaHierarchyBrokenError
from quotas.models import QuotaLimit
from quotas.services.limits import remove_limit, set_limit
from quotas.services.requests import approve_request, submit_request
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry
from tests.builders import AT
from tests.cast import Cast
from tests.quotas.builders import actor_of

SYSTEM = system_actor("tests")
PROJECTS = st.sampled_from(["llm", "vision"])
USERS = st.sampled_from(["bob", "carol"])
SIZES = st.sampled_from(["small", "large"])
UNITS = st.integers(min_value=0, max_value=8)

Key = tuple[str, str | None, str | None]
"""Size, project and user; None for the wider scope."""


class LimitTreeMachine(RuleBasedStateMachine):
    """Sets, removes and requests limits, and keeps a dictionary of what should hold."""

    cast: ClassVar[Cast]

    def __init__(self) -> None:
        super().__init__()
        self.savepoint = transaction.savepoint()
        self.model: dict[Key, int] = {}
        self.generations: dict[Key, int] = {}
        self.entries = AuditEntry.objects.count()

    @initialize(units=UNITS, size=SIZES)
    def begin_with_a_ceiling(self, units: int, size: str) -> None:
        self.write((size, None, None), units)

    @rule(size=SIZES, units=UNITS)
    def set_organization(self, size: str, units: int) -> None:
        self.write((size, None, None), units)

    @rule(size=SIZES, project=PROJECTS, units=UNITS)
    def set_project(self, size: str, project: str, units: int) -> None:
        self.write((size, project, None), units)

    @rule(size=SIZES, project=PROJECTS, user=USERS, units=UNITS)
    def set_user(self, size: str, project: str, user: str, units: int) -> None:
        self.write((size, project, user), units)

    @rule(size=SIZES, project=st.none() | PROJECTS)
    def remove(self, size: str, project: str | None) -> None:
        key = (size, project, None)
        if key not in self.model:
            return
        remove_limit(limit_id=self.row(key).pk, actor=SYSTEM, at=AT)
        del self.model[key], self.generations[key]
        self.entries += 1

    @rule(size=SIZES, units=UNITS)
    def request_and_approve(self, size: str, units: int) -> None:
        request = submit_request(
            project=self.cast.llm,
            size=size,
            requested_units=units,
            justification="Because.",
            actor=actor_of(self.cast.bob),
            at=AT,
        )
        self.entries += 1
        key = (size, "llm", None)
        alice = actor_of(self.cast.alice)
        if self.expect(
            key, units, lambda: approve_request(request_id=request.pk, actor=alice, at=AT)
        ):
            self.entries += 1

    @invariant()
    def the_table_says_what_the_dictionary_says(self) -> None:
        rows = QuotaLimit.objects.values_list(
            "size", "project__slug", "user__username", "limit_units", "generation"
        )
        assert {(s, p, u): (units, g) for s, p, u, units, g in rows} == {
            key: (units, self.generations[key]) for key, units in self.model.items()
        }

    @invariant()
    def every_change_left_one_entry(self) -> None:
        assert AuditEntry.objects.count() == self.entries

    @invariant()
    def the_tree_holds(self) -> None:
        assert holds(self.model)

    def write(self, key: Key, units: int) -> None:
        _, project, user = key
        self.expect(
            key,
            units,
            lambda: set_limit(
                scope="user" if user else "project" if project else "organization",
                organization=self.cast.acme,
                project=getattr(self.cast, project) if project else None,
                user=getattr(self.cast, user) if user else None,
                size=key[0],
                limit_units=units,
                actor=SYSTEM,
                at=AT,
            ),
        )

    def expect(self, key: Key, units: int, call) -> bool:  # type: ignore[no-untyped-def] # noqa: ANN001
        """Call, hold the outcome against the dictionary, and return whether it went through."""
        after = {**self.model, key: units}
        if not holds(after):
            with pytest.raises(QuotaHierarchyBrokenError):
                call()
            return False
        call()
        if self.model.get(key) != units:
            self.generations[key] = self.generations.get(key, 0) + 1
            self.entries += 1
        self.model = after
        return True

    def row(self, key: Key) -> QuotaLimit:
        size, project, user = key
        return QuotaLimit.objects.get(size=size, project__slug=project, user__username=user)

    def teardown(self) -> None:
        transaction.savepoint_rollback(self.savepoint)


def holds(model: dict[Key, int]) -> bool:
    """Whether a plain dictionary of limits is a tree that holds, told in other words."""
    for (size, project, user), units in model.items():
        top = model.get((size, None, None))
        total = sum(u for (s, p, w), u in model.items() if s == size and p and not w)
        above = model.get((size, project, None), top)
        if top is not None and total > top:
            return False
        if user is not None and above is not None and units > above:
            return False
    return True


def test_the_limit_tree_behaves_as_a_plain_dictionary_does(cast: Cast) -> None:
    LimitTreeMachine.cast = cast
    run_state_machine_as_test(
        LimitTreeMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
