"""Every call of the journal and beside final documents: who does it, and the entries it leaves."""

from collections.abc import Callable
from typing import Any

from billing.services.ledger import journal
from tenants.domain.actors import Actor
from tenants.selectors.actors import actor_of_user
from tests.support.flows.estate import Estate

Does = Callable[[Estate, Any], object]


def dora(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.dora)


LEDGER_DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "billing.ledger.journal.accrue_unbilled": (
        dora,
        lambda _, who: journal.accrue_unbilled(label="2026-10", **who),
        [("billing:accounting_month:accrue", None)],
    ),
    "billing.ledger.journal.close_accounting_month": (
        dora,
        lambda _, who: journal.close_accounting_month(label="2026-10", **who),
        [("billing:accounting_month:close", None)],
    ),
}
