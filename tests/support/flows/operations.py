"""Every operation of the API, read from its URL patterns, and what each is sent in the matrix."""

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any, Final
from zipfile import ZipFile

from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver
from pypdf import PdfReader
from rest_framework.test import APIClient

from tests.support.flows.filters import FILTERS
from tests.support.flows.ledger_bodies import LEDGER_BODIES
from tests.support.flows.price_bodies import PRICE_BODIES

PREFIX: Final = "api/v1/"
HOUR_TEXT: Final = "2027-01-01T00:00:00Z"
HOURS: Final = {
    "cluster": "{clusters}",
    "start_from": "2026-10-01T00:00:00Z",
    "start_before": "2026-10-02T00:00:00Z",
}
BODIES: Final[dict[str, dict[str, Any]]] = {
    "POST organizations/": {"slug": "new", "name": "New", "billing_currency": "EUR"},
    "PATCH organizations/pk/": {"name": "Renamed"},
    "POST projects/": {"organization": "{organizations}", "slug": "new", "name": "New"},
    "PATCH projects/pk/": {"name": "Renamed"},
    "POST memberships/": {"role": "project_lead", "user": "{user}", "project": "{projects}"},
    "POST invitations/": {
        "email": "new@example.test",
        "role": "member",
        "project": "{projects}",
    },
    "POST clusters/": {"slug": "new", "name": "New", "metered_from": HOUR_TEXT},
    "PATCH clusters/pk/": {"name": "Renamed"},
    "POST namespace-bindings/": {
        "cluster": "{clusters}",
        "namespace": "new",
        "project": "{projects}",
        "valid_from": HOUR_TEXT,
    },
    "POST namespace-bindings/pk/close/": {"valid_until": "2026-10-01T03:00:00Z"},
    "POST service-accounts/": {"organization": "{organizations}", "slug": "new", "name": "New"},
    "POST api-tokens/": {
        "name": "ci",
        "expires_at": "{tomorrow}",
        "service_account": "{service-accounts}",
    },
    "POST catalogue-versions/": {
        "rules": [{"size": "large", "resources": ["nvidia.com/*"]}],
        "based_on": 1,
        "note": "One size.",
    },
    "POST catalogue-versions/preview/": {
        "rules": [{"size": "large", "resources": ["nvidia.com/*"]}]
    },
    "POST metering-windows/pk/recheck/": {"note": "Late."},
    "POST usage-corrections/": {
        "record": "{usage-records}",
        "unit_seconds": -1,
        "reason": "The node was broken.",
    },
    "POST usage-corrections/pk/reject/": {"note": "It was not."},
    "POST metering-windows/pk/retry/": {"note": "Again."},
    "POST metering-windows/pk/decide/": {"decision": "waive", "note": "Lost."},
    "POST metering-windows/preview-decision/": {**HOURS, "decision": "waive"},
    "POST metering-windows/decide-range/": {**HOURS, "decision": "waive", "note": "Lost."},
    "POST metering-exceptions/pk/accept-evidence/": {"side": "kubernetes", "note": "Looked at."},
    "POST waste-findings/pk/dismiss/": {"reason": "Meant so."},
    "POST credit-proposals/pk/accept/": {"reason": "Broken."},
    "POST credit-proposals/pk/dismiss/": {"reason": "Not broken."},
    "POST device-events/pk/end/": {"note": "Drained."},
    "POST metering-exceptions/pk/resolve/": {"note": "Looked at."},
    "POST incidents/pk/preview-binding/": {"project": "{projects}"},
    "POST incidents/pk/resolve/": {"note": "Looked at."},
    "POST isolation-policies/": {
        "organization": "{organizations}",
        "project": "{projects}",
        "work_kind": "training",
        "modes": ["whole"],
    },
    "PATCH isolation-policies/pk/": {"modes": ["whole", "mig"]},
    "POST quota-limits/": {
        "scope": "project",
        "organization": "{organizations}",
        "project": "{projects}",
        "size": "small",
        "limit_units": 3,
    },
    "PUT quota-limits/pk/": {"limit_units": 7},
    "POST quota-grants/": {"limit": "{quota-limits}", "units": 1},
    "POST quota-grants/pk/end/": {},
    "POST suspensions/": {"organization": "{organizations}", "reason": "Arrears."},
    "POST suspensions/pk/resume/": {},
    "PATCH quota-limits/pk/": {"limit_units": 7},
    "POST quota-requests/": {
        "project": "{projects}",
        "size": "small",
        "requested_units": 2,
        "justification": "More.",
    },
    "POST preemption-plans/": {
        "organization": "{organizations}",
        "yields": [{"size": "small", "units": 1}],
    },
    "POST preemption-policies/": {"organization": "{organizations}", "mode": "off"},
    "PATCH preemption-policies/pk/": {"mode": "off"},
    "POST protected-windows/": {
        "organization": "{organizations}",
        "valid_from": HOUR_TEXT,
        "valid_until": "2027-01-02T00:00:00Z",
        "reason": "Release.",
    },
    "POST quota-requests/preview/": {
        "project": "{projects}",
        "size": "small",
        "requested_units": 2,
    },
    "POST quota-requests/renew/": {
        "renews": "{renewable-requests}",
        "end_at": None,
        "justification": "Longer.",
    },
    "POST quota-requests/bulk/": {
        "requests": [
            {
                "project": "{projects}",
                "size": "small",
                "requested_units": 2,
                "justification": "More.",
            }
        ]
    },
    "POST quota-requests/pk/comments/": {"text": "Please."},
    "POST request-policies/": {"organization": None},
    "PATCH request-policies/pk/": {"remind_days": 3},
    "POST notification-endpoints/": {
        "organization": "{organizations}",
        "kind": "mail",
        "address": "new@example.test",
        "events": ["*"],
    },
    "PATCH notification-endpoints/pk/": {"events": ["quotas:*:*"]},
    "POST notification-endpoints/pk/close/": {},
    "POST notification-deliveries/pk/send-again/": {},
    "PATCH me/notifications/": {"muted_events": [], "language": "de"},
    "POST quota-requests/pk/approve/": {"note": "Fine."},
    "POST quota-requests/pk/reject/": {"note": "No."},
    "POST quota-requests/pk/cancel/": {},
    "POST loan-policies/": {
        "organization": "{organizations}",
        "mode": "off",
        "max_units": 4,
        "max_days": 3,
        "keep_free_percent": 10,
    },
    **LEDGER_BODIES,
    **PRICE_BODIES,
    "POST price-drafts/": {
        "price_book": "{price-books}",
        "prices": [{"size": "medium", "unit_price": "3.5"}],
        "valid_from": HOUR_TEXT,
        "reason": "A new year.",
    },
    "POST price-drafts/pk/publish/": {"note": "Checked."},
    "POST price-drafts/pk/reject/": {"note": "Not yet."},
    "POST tier-schedules/": {
        "price_book": "{price-books}",
        "name": "Bulk",
        "basis": "quantity",
        "kind": "graduated",
        "scope": "project",
        "span": "period",
        "first_month": "2032-01",
        "last_month": "2032-12",
        "bands": [{"above": "0", "discount_percent": "5"}],
    },
    "POST tier-schedules/pk/withdraw/": {"reason": "Wrong."},
    "POST tax-rates/": {
        "country": "DE",
        "category": "S",
        "rate": "19",
        "valid_from": "2031-01-01",
    },
    "POST tax-rates/pk/withdraw/": {"reason": "Wrong."},
    "POST tax-treatments/": {
        "organization": "{organizations}",
        "country": "DE",
        "category": "S",
        "valid_from": "2031-01-01",
    },
    "POST tax-treatments/pk/withdraw/": {"reason": "Wrong."},
    "POST repricings/pk/approve/": {"note": "Checked."},
    "POST repricings/pk/reject/": {"note": "Not yet."},
    "POST billing-periods/": {"organization": "{organizations}", "label": "2027-03"},
    "POST billing-periods/pk/reopen/": {"reason": "A price is wrong."},
    "POST invoices/": {"period": "{billing-periods}"},
    "POST invoices/pk/credit/": {
        "reason": "Broken.",
        "lines": [{"line": "00000000-0000-0000-0000-000000000001", "amount": "1.00"}],
    },
    "POST invoices/pk/void/": {"reason": "Address."},
}
"""What an operation is sent beside its address; the others are sent nothing."""
_KEYS = count()


def operations() -> list[str]:
    """Return every operation as method and path, such as "GET invoices/pk/pdf/"."""
    return sorted(
        f"{method.upper()} {_plain(route)}"
        for route, pattern in _routes(get_resolver())
        if route.startswith(PREFIX) and "rest" not in route
        for method in _methods(pattern)
    )


def send(client: APIClient, operation: str, place: dict[str, Any], **headers: str) -> HttpResponse:
    """Send an operation with its body of `BODIES`; see `send_body`."""
    return send_body(client, operation, place, BODIES.get(operation, {}), **headers)


def send_body(
    client: APIClient,
    operation: str,
    place: dict[str, Any],
    body: dict[str, Any],
    /,
    **headers: str,
) -> HttpResponse:
    """Send an operation at a place with a fresh key and the first version, and return the answer.

    Args:
        client: Who calls.
        operation: One of `operations()`.
        place: Keys of that place by noun, as the estate has them.
        body: Its fields, in which names of keys are replaced.
        headers: Replace what is sent by default; an empty one is not sent.
    """
    method, path = operation.split(" ")
    noun = path.split("/")[0]
    known = {**place, "tomorrow": _tomorrow()}
    query = FILTERS.get(path.removesuffix("/"), "") if method == "GET" else ""
    given = {"Idempotency-Key": f"key-{next(_KEYS)}", "If-Match": '"1"', **headers}
    filled = {name: _filled(value, known) for name, value in body.items()}
    answer: HttpResponse = client.generic(
        method,
        f"/{PREFIX}{path.replace('/pk/', f'/{place.get(noun)}/')}?{query.format(**known)}",
        json.dumps(filled) if method != "GET" else "",
        "application/json",
        headers={name: text for name, text in given.items() if text},
    )
    if answer.streaming:
        return HttpResponse(answer.getvalue(), status=answer.status_code, headers=answer.headers)
    return answer


def reported(answer: HttpResponse) -> str:
    """Return every word of an answer, in lower case: headers and body, a file's text too."""
    return f"{dict(answer.headers)}\n{_text_of(answer.content)}".lower()


def _text_of(content: bytes) -> str:
    """Return the text of a file: of a PDF's pages, of every file in a ZIP or workbook."""
    if content.startswith(b"%PDF-"):
        reader = PdfReader(io.BytesIO(content))
        pages = [page.extract_text() for page in reader.pages]
        return "\n".join([*pages, str(reader.metadata)])
    if content.startswith(b"PK\x03\x04"):
        with ZipFile(io.BytesIO(content)) as files:
            return "\n".join(f"{name}\n{_text_of(files.read(name))}" for name in files.namelist())
    return content.decode()


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern, prefix + str(pattern.pattern))
        else:
            yield prefix + str(pattern.pattern), pattern


def _methods(pattern: URLPattern) -> list[str]:
    """Return what a pattern answers; a view that has answered once knows "head" as well."""
    actions = getattr(pattern.callback, "actions", None)
    return [method for method in actions if method != "head"] if actions else ["get"]


def _plain(route: str) -> str:
    return route.removeprefix(PREFIX).replace("<uuid:pk>", "pk").replace("<int:pk>", "pk")


def _filled(value: object, known: dict[str, Any]) -> object:
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, known) for name, one in value.items()}
    return value.format(**known) if isinstance(value, str) else value


def handler_of(operation: str) -> Any:  # noqa: ANN401 - A function that carries marks.
    """Return the function that answers an operation, with the marks of its decorators."""
    method = operation.split(" ", maxsplit=1)[0].lower()
    for view, actions in _views(operation):
        is_class = isinstance(view, type)
        handler = getattr(view, actions.get(method, method), None) if is_class else view
        if handler is not None:
            return handler
    raise LookupError(operation)


def handler_view(operation: str) -> Any:  # noqa: ANN401 - A class of views.
    """Return the class of the view that answers an operation."""
    return next(view for view, _ in _views(operation))


def _views(operation: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield the views at an operation's address, with their actions by method."""
    for callback in _callbacks()[operation.split(" ")[1]]:
        yield getattr(callback, "cls", callback), getattr(callback, "actions", {})


@cache
def _callbacks() -> dict[str, list[Any]]:
    """Return the functions of each address, read once: there are hundreds of patterns."""
    found: dict[str, list[Any]] = defaultdict(list)
    for route, pattern in _routes(get_resolver()):
        if route.startswith(PREFIX):
            found[_plain(route)].append(pattern.callback)
    return found


def _tomorrow() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()
