"""Whatever is done leaves its entry: every service, what its trail says, and whose trail it is."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from django.db import transaction

from quotas.models import QuotaRequest
from tenants.models import AuditEntry, Organization
from tests.support.builders import AT
from tests.support.flows.estate import make_estate
from tests.support.flows.service_calls import DEEDS

NOT_DEEDS = {
    "tenants.audit.record",
    "tenants.audit.record_each",
    "tenants.changing.add_row",
    "tenants.changing.change_row",
    "tenants.changing.close_row",
    "tenants.identity.tokens.end_credentials",
    "tenants.idempotency.answer_once",
    "tenants.identity.memberships.grant_platform_role",
    "tenants.identity.people.note_user_saved",
    "tenants.identity.people.write_active",
    "tenants.identity.people.write_person",
    "tenants.identity.tokens.note_token_use",
    "tenants.identity.sign_in.begin_attempt",
    "tenants.audit.note_refusal",
    "tenants.audit.audited_use",
    "tenants.audit.note_refused_use",
    "metering.collection.observing.observe_hour",
    "quotas.enforcement.asking.ask_all",
    "quotas.preemption.asking.act_on",
    "tenants.identity.sign_in.count_forged_link",
    "tenants.identity.sign_in.count_link_request",
    "tenants.identity.sign_in.count_wrong_token",
    "tenants.identity.sign_in.deny_attempt",
    "tenants.identity.sign_in.fail_attempt",
    "tenants.identity.sign_in.succeed_attempt",
    "billing.closing.mark_approved",
    "billing.invoicing.fill_draft",
    "billing.ledger.documents.post_document",
    "billing.ledger.allocations.release_above_open",
    "billing.ledger.allocations.release_allocations",
    "billing.ledger.allocations.write_allocations",
    "billing.ledger.payments.audit_payment",
    "billing.ledger.payments.new_payment",
    "billing.ledger.journal.post_events",
    "billing.periods.ensure_months",
    "billing.periods.ensure_periods",
    "billing.pricing.assignments.begin_assignment",
    "billing.pricing.price_history.publish_assignment",
    "billing.pricing.price_history.publish_price",
    "billing.pricing.price_history.supersede_assignment",
    "billing.pricing.price_history.supersede_price",
    "quotas.limits.grants.end_together",
    "quotas.preemption.acting.record_turn",
    "quotas.preemption.acting.settle_turn",
    "quotas.preemption.running.end_plan",
    "quotas.limits.changes.grant_together",
    "quotas.limits.changes.record_grant",
    "quotas.limits.changes.record_limit",
    "quotas.limits.changes.write_limit",
    "quotas.lending.loans.record_loan",
    "quotas.requests.asking.prepare_request",
    "quotas.requests.granting.grant_request",
    "quotas.requests.preview.preview_request",
    "quotas.requests.preview.problems_in_the_way",
    "quotas.requests.deciding.finish",
    "quotas.requests.deciding.record_request",
    "quotas.requests.valuation.requested_quota_of",
    "quotas.preemption.sweep.unexecuted_plan_ids",
    "quotas.enforcement.settling.settle_applied",
    "quotas.enforcement.settling.record_disputed",
    "quotas.enforcement.settling.settle_conflict",
    "quotas.enforcement.settling.settle_overtaken",
    "metering.catalogue.preview_catalogue",
    "metering.corrections.posting.write_drafts",
    "metering.collection.failures.record_incomplete",
    "metering.collection.failures.return_to_person",
}
"""Parts of services, which write in the transaction of what calls them, or no entry at all."""
SWEEPS = {
    "tenants.clusters.note_credential",
    "billing.exports.running.lease_run",
    "tenants.notifications.deliveries.claim_deliveries",
    "quotas.requests.clock.escalate_request",
    "quotas.requests.clock.escalate_requests",
    "quotas.requests.clock.expire_request",
    "quotas.requests.clock.expire_requests",
    "quotas.requests.clock.remind_of_ends",
    "tenants.idempotency.purge_responses",
    "tenants.identity.sessions.delete_ended_sessions",
    "tenants.retention.purge_and_record",
    "tenants.retention.purge_notifications",
    "tenants.verification.verify_batch",
    "tenants.identity.password_links.take_link_request",
    "tenants.identity.sign_in.purge_attempts",
    "quotas.admission.retention.fold_refusals",
    "quotas.admission.retention.purge_admitted_pods",
    "quotas.admission.retention.purge_reservations",
    "billing.accrual.accrue_windows",
    "billing.accrual.accrue_corrections",
    "metering.corrections.rechecking.recheck_window",
    "billing.closing.close_nil_period",
    "billing.ledger.documents.post_missing_documents",
    "billing.periods.open_current_periods",
    "quotas.enforcement.applying.apply_target",
    "quotas.enforcement.applying.apply_targets",
    "quotas.enforcement.applying.check_target",
    "quotas.enforcement.applying.check_targets",
    "quotas.enforcement.applying.read_again",
    "quotas.preemption.running.expire_plans",
    "quotas.preemption.stepping.step_plan",
    "quotas.preemption.sweep.note_overage",
    "quotas.preemption.sweep.execute_own_plan",
    "quotas.preemption.sweep.propose",
    "quotas.admission.live_use.refresh_allowances",
    "quotas.admission.live_use.repair_counters",
    "quotas.admission.live_use.sweep_live_use",
    "quotas.admission.unseen.release_unseen",
    "quotas.lending.proposals.refresh_loans",
    "quotas.enforcement.coverage.refresh_coverage",
    "quotas.enforcement.selectors.follow_bindings",
    "quotas.enforcement.refused_pods.refresh_refused_pods",
    "quotas.enforcement.targets.refresh_targets",
    "metering.catalogue.ensure_catalogue",
    "metering.collection.collecting.collect_window",
    "metering.collection.division.collecting.collect_claimed",
    "metering.collection.division.reading.observe_pods",
    "metering.devices.collection.collect_devices",
    "metering.efficiency.deriving.derive_corrections",
    "metering.efficiency.deriving.derive_each",
    "metering.efficiency.deriving.derive_window",
    "metering.efficiency.deriving.derive_windows",
    "metering.collection.hour_decisions.waive_unmetered",
    "metering.allocations.leases.take_lease",
    "metering.allocations.lists.ledger_events",
    "metering.allocations.lists.ledger_list",
    "metering.allocations.sizing.settle_everywhere",
    "metering.allocations.sizing.settle_sizes",
    "metering.collection.sealing.reconcile_windows",
    "metering.collection.sealing.seal_window",
}
"""What the service does by itself; the tests of each say what it leaves."""
ELSEWHERE = {
    "billing.crediting.draft_credit",
    "billing.crediting.draft_debit",
    "billing.crediting.void_invoice",
    "billing.ledger.carried.release_balance",
    "tenants.archives.detach_month",
    "tenants.archives.record_archive",
    "tenants.archives.restore_month",
    "tenants.identity.account_changes.confirm_address",
    "tenants.identity.invitations.accept_invitation",
    "tenants.identity.password_links.ask_password_link",
    "tenants.identity.people.create_superuser",
    "tenants.identity.people.note_link_refused",
    "tenants.identity.sessions.end_other_sessions",
    "tenants.identity.sessions.end_session",
    "tenants.verification.accept_earlier_ends",
    "metering.corrections.exceptions.accept_side",
    "metering.collection.hour_decisions.decide_window",
    "metering.collection.hour_decisions.decide_windows",
    "quotas.preemption.resuming.resume_jobs",
}
"""Needs a link, the host, a browser, the owner of the tables, a window that waits for a person, two
sources, a final invoice, a carried balance, or a suspended Job; the tests of each app have them."""


def services() -> Iterator[str]:
    """Yield every public service function that takes an actor and a time."""
    for app in ("tenants", "billing", "quotas", "metering"):
        package = importlib.import_module(f"{app}.services")
        for found in pkgutil.walk_packages(package.__path__, prefix=f"{app}.services."):
            module = importlib.import_module(found.name)
            for name, function in inspect.getmembers(module, inspect.isfunction):
                takes = set(inspect.signature(function).parameters)
                is_own = function.__module__ == module.__name__ and not name.startswith("_")
                if is_own and {"actor", "at"} <= takes:
                    yield f"{found.name.replace('.services.', '.')}.{name}"


def test_every_service_that_takes_an_actor_stands_in_one_of_the_tables() -> None:
    reported = [*DEEDS, *NOT_DEEDS, *SWEEPS, *ELSEWHERE]

    assert sorted(reported) == sorted(services())


@pytest.mark.django_db
def test_every_call_leaves_exactly_its_entries_in_the_right_trail() -> None:
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
