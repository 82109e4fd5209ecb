"""Whatever is done leaves its entry: every service, what its trail says, and whose trail it is."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from django.db import transaction

from quotas.models import QuotaRequest
from tenants.models import AuditEntry, Organization
from tests.builders import AT
from tests.flows.deeds import DEEDS
from tests.flows.estate import make_estate

NOT_DEEDS = {
    "tenants.audit.record",
    "tenants.audit.record_each",
    "tenants.changing.add_row",
    "tenants.changing.change_row",
    "tenants.credentials.end_credentials",
    "tenants.idempotency.answer_once",
    "tenants.memberships.grant_platform_role",
    "tenants.people.note_user_saved",
    "tenants.people.write_active",
    "tenants.people.write_person",
    "tenants.tokens.note_token_use",
    "tenants.sign_in.begin_attempt",
    "tenants.refusals.note_refusal",
    "tenants.refusals.audited_use",
    "tenants.refusals.note_refused_use",
    "metering.observing.look_at",
    "quotas.asking.ask_all",
    "quotas.preemption_asking.act_on",
    "tenants.sign_in.count_forged_link",
    "tenants.sign_in.count_link_request",
    "tenants.sign_in.count_wrong_token",
    "tenants.sign_in.deny_attempt",
    "tenants.sign_in.fail_attempt",
    "tenants.sign_in.succeed_attempt",
    "billing.periods.ensure_months",
    "billing.periods.ensure_periods",
    "quotas.grant_ends.end_together",
    "quotas.preemption_acting.record_turn",
    "quotas.preemption_acting.settle_turn",
    "quotas.preemption_running.end_plan",
    "quotas.grants.grant_together",
    "quotas.grants.record_grant",
    "quotas.limits.write_limit",
    "quotas.loan_trail.record_loan",
    "quotas.request_asking.prepare_request",
    "quotas.request_granting.grant_request",
    "quotas.request_preview.preview_request",
    "quotas.request_preview.problems_in_the_way",
    "quotas.request_trail.finish",
    "quotas.request_trail.record_request",
    "quotas.request_wish.wish_of",
    "quotas.preemption_sweep.unexecuted_plan_ids",
    "quotas.settling.settle_applied",
    "quotas.settling.settle_conflict",
    "quotas.settling.settle_overtaken",
    "metering.catalogue_editing.preview_catalogue",
    "metering.correcting.write_drafts",
    "metering.exceptions.resolve_of_windows",
    "metering.failures.record_incomplete",
    "metering.failures.return_to_person",
}
"""Parts of services, which write in the transaction of what calls them, or no entry at all."""
SWEEPS = {
    "tenants.clusters.note_credential",
    "tenants.deliveries.claim_deliveries",
    "quotas.request_clock.escalate_request",
    "quotas.request_clock.escalate_requests",
    "quotas.request_clock.expire_request",
    "quotas.request_clock.expire_requests",
    "quotas.request_clock.remind_of_ends",
    "tenants.idempotency.forget_answers",
    "tenants.sessions.delete_ended_sessions",
    "tenants.retention.forget_and_tell",
    "tenants.retention.forget_notifications",
    "tenants.verification.verify_batch",
    "tenants.password_links.take_link_request",
    "tenants.sign_in.purge_attempts",
    "quotas.retention.fold_refusals",
    "quotas.retention.forget_reservations",
    "billing.accrual.accrue_windows",
    "billing.late_accrual.accrue_corrections",
    "metering.rechecking.recheck_window",
    "billing.periods.open_current_periods",
    "quotas.enforcement.apply_target",
    "quotas.enforcement.apply_targets",
    "quotas.enforcement.check_target",
    "quotas.enforcement.check_targets",
    "quotas.enforcement_by_hand.read_again",
    "quotas.preemption_running.expire_plans",
    "quotas.preemption_stepping.step_plan",
    "quotas.preemption_sweep.note_overage",
    "quotas.preemption_sweep.execute_own_plan",
    "quotas.preemption_sweep.propose",
    "quotas.allowances.refresh_allowances",
    "quotas.live_use.repair_counters",
    "quotas.live_use.sweep_live_use",
    "quotas.lending.refresh_loans",
    "quotas.target_plans.refresh_targets",
    "metering.catalogue.ensure_catalogue",
    "metering.collection.collect_window",
    "metering.device_collection.collect_devices",
    "metering.deriving.derive_corrections",
    "metering.deriving.derive_each",
    "metering.deriving.derive_window",
    "metering.deriving.derive_windows",
    "metering.decisions.waive_unmetered",
    "metering.sealing.reconcile_windows",
    "metering.sealing.seal_window",
}
"""What the service does by itself; the tests of each say what it leaves."""
ELSEWHERE = {
    "tenants.account_changes.confirm_address",
    "tenants.invitations.accept_invitation",
    "tenants.password_links.ask_password_link",
    "tenants.people.create_superuser",
    "tenants.people.note_link_refused",
    "tenants.sessions.end_other_sessions",
    "tenants.sessions.end_session",
    "tenants.verification.accept_earlier_ends",
    "metering.accepting.accept_side",
    "metering.decisions.decide_window",
    "metering.decisions.decide_windows",
    "quotas.preemption_resuming.resume_jobs",
}
"""Needs a link, the host, a browser, the owner of the tables, a window that waits for a person, two
sources, or a suspended Job; the tests of each app have them."""


def services() -> Iterator[str]:
    """Yield every public service function that takes an actor and a time."""
    for app in ("tenants", "billing", "quotas", "metering"):
        package = importlib.import_module(f"{app}.services")
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{app}.services.{found.name}")
            for name, function in inspect.getmembers(module, inspect.isfunction):
                takes = set(inspect.signature(function).parameters)
                is_own = function.__module__ == module.__name__ and not name.startswith("_")
                if is_own and {"actor", "at"} <= takes:
                    yield f"{app}.{found.name}.{name}"


def test_every_service_that_takes_an_actor_stands_in_one_of_the_tables() -> None:
    told = [*DEEDS, *NOT_DEEDS, *SWEEPS, *ELSEWHERE]

    assert sorted(told) == sorted(services())


@pytest.mark.django_db
def test_every_deed_leaves_exactly_its_entries_in_the_right_trail() -> None:
    estate = make_estate()
    slugs = dict(Organization.objects.values_list("pk", "slug"))
    assert QuotaRequest.objects.count() == 4
    wrong = []
    for name, (who, does, expected) in DEEDS.items():
        before = transaction.savepoint()
        actor = who(estate)
        last = AuditEntry.objects.latest("pk").pk
        does(estate, {"actor": actor, "at": AT})
        entries = list(AuditEntry.objects.filter(pk__gt=last).order_by("pk"))
        slugs |= dict(Organization.objects.values_list("pk", "slug"))
        left = [
            (e.action, slugs.get(e.organization_id) if e.organization_id else None) for e in entries
        ]
        signed = {(e.actor_kind, e.actor_id, e.actor_label, e.occurred_at) for e in entries}
        transaction.savepoint_rollback(before)
        if sorted(left) != expected or signed != {("person", actor.id, actor.label, AT)}:
            wrong.append((name, left, signed))

    assert wrong == []
