"""An organization in which one project waits for what another holds idle."""

from dataclasses import dataclass
from datetime import datetime

from metering.domain.efficiency.rules import WasteThresholds
from quotas.models import LoanMode, LoanPolicy, QuotaGrant, QuotaLimit, QuotaLoan
from quotas.selectors.lending import LendingTerms
from quotas.selectors.limits.in_force import limits_in_force
from quotas.services.lending.proposals import LendingDone, refresh_loans
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import AT, MONTH_START, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.fair_use import refuse, reserve

TERMS = LendingTerms(burst_classes=("gpu-ledger-burst",), thresholds=WasteThresholds())
TICK = system_actor("quotas.tick")


@dataclass(frozen=True)
class LendingWorld:
    """LLM holds four of its four units and was refused three; Vision uses none of its twelve."""

    cast: Cast
    cluster: Cluster
    whole: QuotaLimit
    llm: QuotaLimit
    vision: QuotaLimit

    def refresh(self, at: datetime = AT) -> LendingDone:
        """Make a round of the tick for Acme."""
        return refresh_loans(organization_id=self.cast.acme.pk, terms=TERMS, actor=TICK, at=at)

    def in_force(self, at: datetime = AT) -> dict[str, int | None]:
        """Return what the limits come to: of the organization and of both projects."""
        found = {
            limit.limit_id: limit.nominal_units
            for limit in limits_in_force(at=at, organization_ids=[self.cast.acme.pk])
        }
        return {
            "acme": found[self.whole.pk],
            "llm": found[self.llm.pk],
            "vision": found[self.vision.pk],
        }


def make_lending_world(cast: Cast) -> LendingWorld:
    """Return the world, with limits that have stood for long."""
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    bind(cluster, "vision", cast.vision)
    world = LendingWorld(
        cast,
        cluster,
        make_limit(cast.acme, units=16),
        make_limit(cast.acme, cast.llm, units=4),
        make_limit(cast.acme, cast.vision, units=12),
    )
    QuotaLimit.objects.update(changed_at=MONTH_START)
    reserve(cluster, cast.llm, units=4)
    refuse(cluster, cast.llm, units=3)
    return world


def agree(world: LendingWorld, mode: LoanMode, **terms: int) -> LoanPolicy:
    """Return Acme's policy, saved without asking."""
    return LoanPolicy.objects.create(
        organization=world.cast.acme, mode=mode, changed_at=AT, **terms
    )


def loan() -> QuotaLoan:
    """Return the only loan."""
    return QuotaLoan.objects.get()


def loan_grants() -> list[tuple[str, int]]:
    """Return the grants of loans: whose, and how many."""
    rows = QuotaGrant.objects.filter(reason="loan").order_by("units")
    return [(grant.project.slug, grant.units) for grant in rows if grant.project is not None]
