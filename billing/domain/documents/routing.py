"""Routes: which issuer bills a project, whom, and under which purchase order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from billing.domain.documents.invoicing import InvoiceKind, Line


@dataclass(frozen=True)
class Route:
    """Where the lines of a project go; a run has one document for each.

    Attributes:
        issuer_id: None for the site's own issuer.
        recipient_id: None for the organization itself.
        purchase_order: Printed on the document; "" for none.
    """

    issuer_id: UUID | None = None
    recipient_id: UUID | None = None
    purchase_order: str = ""


DEFAULT_ROUTE: Final = Route()
Payer = tuple[UUID | None, UUID | None]
"""Issuer and recipient, as in a route: between them balances are carried."""


def payer_of(route: Route) -> Payer:
    """Return issuer and recipient, which share one balance for all purchase orders."""
    return route.issuer_id, route.recipient_id


def numbering_order(kind: str, series: str, route: Route) -> tuple[bool, str, str, str, str]:
    """Return what the documents of a run are sorted by to take their numbers: credit notes first.

    Args:
        kind: Of the document.
        series: Prefix of its number.
        route: Issuer, recipient and purchase order.
    """
    issuer, recipient = (str(key or "") for key in payer_of(route))
    is_later = kind != InvoiceKind.CREDIT_NOTE.value
    return is_later, series, issuer, recipient, route.purchase_order


def split_by_route(
    lines: Iterable[Line], routes: Mapping[UUID, Route]
) -> dict[Route, tuple[Line, ...]]:
    """Return the lines of each document of a run, in the order of their projects.

    Every line goes with its project, and so does a project's share of a tier that spans documents.

    Args:
        lines: Of the month.
        routes: By project; one that is missing has the default.
    """
    parts: dict[Route, list[Line]] = {}
    for line in lines:
        part = parts.setdefault(routes.get(UUID(line.project_id), DEFAULT_ROUTE), [])
        part.append(replace(line, position=len(part) + 1))
    return {route: tuple(part) for route, part in parts.items()}
