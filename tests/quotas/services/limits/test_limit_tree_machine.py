"""The limit tree against a plain model, over random sequences of changes and of passing time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from metering.domain.catalogue.units import GPUSize
from quotas.models import QuotaCounter, QuotaGrant, QuotaLimit
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force
from quotas.services.limits.changes import GrantDraft, grant_together
from quotas.services.limits.grants import end_grant, end_together, grant_units
from quotas.services.limits.limits import remove_limit, set_limit
from quotas.services.limits.suspensions import resume_tenant, suspend_tenant
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.models import AuditEntry, Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.tree_model import FAR, Key, ModelGrant, ModelLimit, ModelTree, Selector

SYSTEM = system_actor("tests")
WIDE: Selector = ("large", "", "")
HOLDERS = st.sampled_from(
    [("", ""), ("llm", ""), ("vision", ""), ("llm", "bob"), ("llm", "carol"), ("vision", "bob")]
)
SELECTORS = st.sampled_from(
    [WIDE, WIDE, ("large", "H100", ""), ("large", "H100", "hopper"), ("small", "", "")]
)
UNITS = st.none() | st.integers(min_value=0, max_value=9)
PERCENTS = st.sampled_from([100, 100, 150, 300])
PICK = st.integers(min_value=0, max_value=999)
SOURCES = st.sampled_from(["", "budget"])


class LimitTreeMachine(RuleBasedStateMachine):
    """Changes limits, grants and suspensions, lets hours pass, and keeps a model of it all."""

    cast: ClassVar[Cast]
    hopper: ClassVar[Cluster]

    def __init__(self) -> None:
        super().__init__()
        self.savepoint = transaction.savepoint()
        self.hour = 0
        self.tree = ModelTree()
        self.rows: dict[Key, UUID] = {}
        self.generations: dict[Key, int] = {}
        self.grants: dict[UUID, ModelGrant] = {}
        self.loans: list[tuple[UUID, UUID]] = []
        self.suspended: set[tuple[str, str]] = set()
        self.entries = AuditEntry.objects.count()

    @property
    def at(self) -> datetime:
        return AT + timedelta(hours=self.hour)

    @initialize(organization=st.integers(4, 9), project=st.integers(0, 4), percent=PERCENTS)
    def begin_with_two_limits(self, organization: int, project: int, percent: int) -> None:
        self.set_limit(("", ""), WIDE, organization, percent)
        self.set_limit(("llm", ""), WIDE, project, percent)

    @rule(holder=HOLDERS, selector=SELECTORS, units=UNITS, percent=PERCENTS)
    def set_limit(
        self, holder: tuple[str, str], selector: Selector, units: int | None, percent: int
    ) -> None:
        key: Key = (*holder, selector)
        limit = ModelLimit(units, percent)
        after = self.tree.with_limit(key, limit)
        refusal = "" if after.holds_from(self.hour) else "quota_hierarchy_broken"
        if not self.does(lambda: self.write(key, limit), refusal=refusal):
            return
        if self.tree.limits.get(key) != limit:
            self.generations[key] = self.generations.get(key, 0) + 1
            self.entries += 1
        self.tree = after

    @precondition(lambda self: self.tree.limits)
    @rule(pick=PICK)
    def remove_limit(self, pick: int) -> None:
        key = self.picked(pick)
        lasting = any(one.key == key and one.end > self.hour for one in self.tree.grants)
        refusal = "quota_limit_granted" if lasting else ""
        call = lambda: remove_limit(limit_id=self.rows[key], actor=SYSTEM, at=self.at)  # noqa: E731 - Called once.
        if self.does(call, refusal=refusal):
            self.tree = self.tree.without(key)
            gone = {pk for pk, one in self.grants.items() if one.key == key}
            # A loan of which one half is gone is over, and its other half is left alone.
            gone |= {pk for loan in self.loans if set(loan) & gone for pk in loan}
            self.grants = {pk: one for pk, one in self.grants.items() if pk not in gone}
            self.loans = [loan for loan in self.loans if not set(loan) & gone]
            del self.rows[key], self.generations[key]
            self.entries += 1

    @precondition(lambda self: self.tree.limits)
    @rule(
        pick=PICK,
        units=st.integers(-4, 4).filter(bool),
        delay=st.integers(0, 4),
        hours=st.integers(1, 5) | st.none(),
    )
    def grant(self, pick: int, units: int, delay: int, hours: int | None) -> None:
        begin = self.hour + delay
        one = ModelGrant(self.picked(pick), units, begin, FAR if hours is None else begin + hours)
        if self.does(lambda: self.make(one), refusal=self.refusal_of(one)):
            self.tree = replace(self.tree, grants=(*self.tree.grants, one))
            self.entries += 1

    @precondition(lambda self: len(self.tree.limits) > 1)
    @rule(lender=PICK, borrower=PICK, units=st.integers(1, 3), hours=st.integers(1, 5))
    def lend(self, lender: int, borrower: int, units: int, hours: int) -> None:
        end = self.hour + hours
        minus = ModelGrant(self.picked(lender), -units, self.hour, end)
        plus = ModelGrant(self.picked(borrower), units, self.hour, end)
        if self.does(lambda: self.make_loan(minus, plus), refusal=self.refusal_of(minus, plus)):
            self.tree = replace(self.tree, grants=(*self.tree.grants, minus, plus))
            self.entries += 2

    @precondition(lambda self: self.grants)
    @rule(pick=PICK, delay=st.integers(0, 4))
    def end_grant(self, pick: int, delay: int) -> None:
        pk = sorted(self.grants)[pick % len(self.grants)]
        halves = next((loan for loan in self.loans if pk in loan), None)
        until = self.hour + delay
        if halves is not None:
            self.does(lambda: self.end(pk, until), refusal="quota_grant_lent")
        self.end_all(halves or (pk,), until)

    @rule(hours=st.integers(1, 3))
    def let_time_pass(self, hours: int) -> None:
        self.hour = min(self.hour + hours, FAR - 10)

    @rule(project=st.sampled_from(["", "llm", "vision"]), source=SOURCES)
    def suspend(self, project: str, source: str) -> None:
        suspend_tenant(**self.tenant(project), source=source, reason="Arrears.")
        self.entries += (project, source) not in self.suspended
        self.suspended.add((project, source))

    @rule(project=st.sampled_from(["", "llm", "vision"]), source=SOURCES)
    def resume(self, project: str, source: str) -> None:
        resume_tenant(**self.tenant(project), source=source)
        self.entries += (project, source) in self.suspended
        self.suspended.discard((project, source))

    @invariant()
    def the_tables_say_what_the_model_says(self) -> None:
        rows = QuotaLimit.objects.values_list(
            "pk", "generation", "limit_units", "overcommit_percent"
        )
        assert {
            pk: (generation, ModelLimit(units, percent)) for pk, generation, units, percent in rows
        } == {
            self.rows[key]: (self.generations[key], limit)
            for key, limit in self.tree.limits.items()
        }
        assert QuotaCounter.objects.count() == len(self.rows)

    @invariant()
    def what_is_in_force_is_what_the_model_comes_to(self) -> None:
        reported = {self.key_of(one): one for one in limits_in_force(at=self.at)}
        assert {key: one.nominal_units for key, one in reported.items()} == {
            key: self.tree.units(key, self.hour) for key in self.tree.limits
        }
        for (project, _, _), one in reported.items():
            holders = {holder for holder, _ in self.suspended}
            assert one.is_suspended is bool(holders & {"", project})

    @invariant()
    def every_change_left_one_entry(self) -> None:
        assert AuditEntry.objects.count() == self.entries

    @invariant()
    def the_tree_holds_now_and_later(self) -> None:
        assert self.tree.holds_from(self.hour)

    def picked(self, pick: int) -> Key:
        return sorted(self.tree.limits)[pick % len(self.tree.limits)]

    def refusal_of(self, *grants: ModelGrant) -> str:
        if any(self.tree.limits[grant.key].units is None for grant in grants):
            return "quota_limit_unlimited"
        after = replace(self.tree, grants=(*self.tree.grants, *grants))
        return "" if after.holds_from(self.hour) else "quota_hierarchy_broken"

    def end_all(self, pks: tuple[UUID, ...], until: int) -> None:
        """End a grant, or both halves of a loan, and hold the outcome against the model."""
        ended = [self.grants[pk] for pk in pks]
        kept = list(self.tree.grants)
        shorter = []
        for one in ended:
            kept.remove(one)
            shorter += [replace(one, end=until)] if one.begin < until else []
        after = replace(self.tree, grants=(*kept, *shorter))
        # What is over may be about a limit that is gone since: nothing else is asked of it.
        is_over = any(one.end <= until for one in ended)
        holds = is_over or after.holds_from(self.hour)
        refusal = "quota_grant_over" if is_over else "" if holds else "quota_hierarchy_broken"
        call = lambda: self.end(*pks, until)  # noqa: E731 - Called once.
        if self.does(call, refusal=refusal):
            self.tree = after
            self.entries += len(pks)
            for pk, one in zip(pks, ended, strict=True):
                self.grants[pk] = replace(one, end=until)
                if one.begin >= until:
                    del self.grants[pk]
            self.loans = [loan for loan in self.loans if set(loan) <= set(self.grants)]

    def does(self, call: Callable[[], object], *, refusal: str) -> bool:
        """Call and return whether it went through; a refusal has the code that was expected."""
        event(refusal or "done")
        if not refusal:
            call()
            return True
        with pytest.raises(DomainError) as reported:
            call()
        assert reported.value.code == refusal
        return False

    def write(self, key: Key, limit: ModelLimit) -> None:
        project, user, (size, group, cluster) = key
        self.rows[key] = set_limit(
            scope="user" if user else "project" if project else "organization",
            organization=self.cast.acme,
            project=getattr(self.cast, project) if project else None,
            user=getattr(self.cast, user) if user else None,
            size=size,
            model_group=group,
            cluster=self.hopper if cluster else None,
            limit_units=limit.units,
            overcommit_percent=limit.percent,
            actor=SYSTEM,
            at=self.at,
        ).pk

    def make(self, grant: ModelGrant) -> None:
        made = grant_units(
            limit_id=self.rows[grant.key],
            units=grant.units,
            begin_at=AT + timedelta(hours=grant.begin),
            end_at=None if grant.end == FAR else AT + timedelta(hours=grant.end),
            actor=SYSTEM,
            at=self.at,
        )
        self.grants[made.pk] = grant

    def make_loan(self, minus: ModelGrant, plus: ModelGrant) -> None:
        end_at = AT + timedelta(hours=minus.end)
        drafts = [
            GrantDraft(self.rows[one.key], one.units, end_at=end_at, reason="loan")  # type: ignore[arg-type]
            for one in (minus, plus)
        ]
        first, second = grant_together(drafts=drafts, actor=SYSTEM, at=self.at)
        self.grants |= {first.pk: minus, second.pk: plus}
        self.loans.append((first.pk, second.pk))

    def end(self, *pks_and_hour: UUID | int) -> None:
        *pks, hour = pks_and_hour
        when = {"end_at": AT + timedelta(hours=hour), "actor": SYSTEM, "at": self.at}  # type: ignore[arg-type]
        if len(pks) == 1:
            end_grant(grant_id=pks[0], **when)  # type: ignore[arg-type]
        else:
            end_together(grant_ids=pks, **when)  # type: ignore[arg-type]

    def tenant(self, project: str) -> dict[str, Any]:
        named = getattr(self.cast, project) if project else None
        return {
            "organization": self.cast.acme,
            "project": named,
            "actor": SYSTEM,
            "at": self.at,
        }

    def key_of(self, limit: LimitInForce) -> Key:
        projects = {self.cast.llm.pk: "llm", self.cast.vision.pk: "vision", None: ""}
        cluster = "hopper" if limit.cluster_id else ""
        selector = (GPUSize(limit.size).value, limit.model_group, cluster)
        return (projects[limit.project_id], limit.username or "", selector)

    def teardown(self) -> None:
        assert QuotaGrant.objects.count() >= len(self.grants)
        transaction.savepoint_rollback(self.savepoint)


@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_the_limit_tree_behaves_as_a_plain_model_does(cast: Cast, examples: int) -> None:
    LimitTreeMachine.cast, LimitTreeMachine.hopper = cast, make_cluster()
    run_state_machine_as_test(
        LimitTreeMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=55,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
