"""What each command asks the service, and how it shows the answer."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType
from uuid import UUID, uuid4

from gpu_ledger_client.api.charges_and_invoices import (
    cost_report,
    download_invoice_pdf,
    get_usage_summary,
    list_invoices,
)
from gpu_ledger_client.api.organizations_and_clusters import list_organizations, list_projects
from gpu_ledger_client.api.people_and_access import get_me
from gpu_ledger_client.api.quota_requests import (
    approve_quota_request,
    cancel_quota_request,
    create_quota_request,
    get_quota_request,
    list_quota_requests,
    reject_quota_request,
)
from gpu_ledger_client.api.quotas import get_headroom, list_quota_limits
from gpu_ledger_client.client import AuthenticatedClient
from gpu_ledger_client.models.cost_row import CostRow
from gpu_ledger_client.models.cost_total import CostTotal
from gpu_ledger_client.models.get_headroom_size import GetHeadroomSize
from gpu_ledger_client.models.get_usage_summary_expand_item import GetUsageSummaryExpandItem
from gpu_ledger_client.models.invoice import Invoice
from gpu_ledger_client.models.list_invoices_state import ListInvoicesState
from gpu_ledger_client.models.list_quota_limits_expand_item import ListQuotaLimitsExpandItem
from gpu_ledger_client.models.list_quota_requests_expand_item import ListQuotaRequestsExpandItem
from gpu_ledger_client.models.list_quota_requests_state import ListQuotaRequestsState
from gpu_ledger_client.models.project import Project
from gpu_ledger_client.models.quota_decision_request import QuotaDecisionRequest
from gpu_ledger_client.models.quota_limit import QuotaLimit
from gpu_ledger_client.models.quota_request import QuotaRequest
from gpu_ledger_client.models.quota_request_input_request import QuotaRequestInputRequest
from gpu_ledger_client.models.size_enum import SizeEnum
from gpu_ledger_client.models.usage_total import UsageTotal

from gl.connection import RefusedError, answer_of, rows_of
from gl.tables import hours_text, money_text, show_json, show_rows

_DECISIONS = {"approve": approve_quota_request, "reject": reject_quota_request}
_MONTHS_OF_A_YEAR = 12
NO_SLUGS: Mapping[str, str] = MappingProxyType({})


def show_me(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print whose token it is and what its roles are."""
    me = answer_of(get_me.sync_detailed, client=client)
    if arguments.json:
        show_json(me)
        return
    slugs = {
        str(one.id): one.slug
        for list_all in (list_organizations, list_projects)
        for one in rows_of(list_all.sync_detailed, client=client)
    }
    rows = [
        (grant.role.value, slugs.get(str(grant.organization)), slugs.get(str(grant.project)))
        for grant in me.grants
    ]
    show_rows(("Role", "Organization", "Project"), rows, empty=f"{me.name} has no role.")


def show_quota(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print limits with what is used, reserved and free of them."""
    project = _project_id(client, arguments.project) if arguments.project else None
    expand = [ListQuotaLimitsExpandItem.ORGANIZATION, ListQuotaLimitsExpandItem.PROJECT]
    limits = list(
        rows_of(list_quota_limits.sync_detailed, client=client, project=project, expand=expand)
    )
    if arguments.json:
        show_json(limits)
        return
    show_rows(
        (
            "Organization",
            "Project",
            "User",
            "Size",
            "Model",
            "#Limit",
            "#Used",
            "#Reserved",
            "#Free",
        ),
        (
            (
                _name(row, "organization"),
                _name(row, "project"),
                row.user,
                row.size.value,
                row.model_group or "any",
                "unlimited" if row.units_in_force is None else row.units_in_force,
                row.used_units,
                row.reserved_units,
                row.free_units,
            )
            for row in limits
        ),
        empty="No limit is set.",
    )


def request_quota(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Ask for units in all, and print the request."""
    body = QuotaRequestInputRequest(
        project=_project_id(client, arguments.project),
        size=SizeEnum(arguments.size),
        requested_units=arguments.units,
        justification=arguments.because,
        model_group=arguments.model,
    )
    if arguments.until:
        body.end_at = _midnight(arguments.until)
    asked = answer_of(
        create_quota_request.sync_detailed,
        client=client,
        body=body,
        idempotency_key=str(uuid4()),
    )
    _show_requests(client, [asked], as_json=arguments.json)


def show_requests(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print requests, newest first."""
    state = ListQuotaRequestsState(arguments.state) if arguments.state else None
    expand = [ListQuotaRequestsExpandItem.PROJECT]
    asked = rows_of(list_quota_requests.sync_detailed, client=client, state=state, expand=expand)
    _show_requests(client, list(asked), as_json=arguments.json)


def show_request(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print one request with who decides it and what was said."""
    asked = answer_of(get_quota_request.sync_detailed, arguments.id, client=client)
    if arguments.json:
        show_json(asked)
        return
    _show_requests(client, [asked], as_json=False)
    show_rows(
        ("Note of the decision", "By"), [(asked.decision_note or None, asked.decided_by)], empty=""
    )


def decide_request(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Approve or reject a request, and print it."""
    decided = answer_of(
        _DECISIONS[arguments.decision].sync_detailed,
        arguments.id,
        client=client,
        body=QuotaDecisionRequest(note=arguments.note),
        idempotency_key=str(uuid4()),
    )
    _show_requests(client, [decided], as_json=arguments.json)


def withdraw_request(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Withdraw a request, and print it."""
    withdrawn = answer_of(
        cancel_quota_request.sync_detailed,
        arguments.id,
        client=client,
        idempotency_key=str(uuid4()),
    )
    _show_requests(client, [withdrawn], as_json=arguments.json)


def show_headroom(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print whether units may start now, and if not, what is in the way."""
    found = answer_of(
        get_headroom.sync_detailed,
        client=client,
        project=_project_id(client, arguments.project),
        size=GetHeadroomSize(arguments.size),
        units=arguments.units,
    )
    if arguments.json:
        show_json(found)
        return
    expected = getattr(found.expected_start, "p50", None)
    show_rows(
        ("Fits now", "#Free units", "Expected start", "Why"),
        [("yes" if found.fits else "no", found.free_units, expected, found.message)],
        empty="",
    )


def show_cost(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print the cost of a month beside the days before it, with the pace of a running month."""
    first, after = _month(arguments.month)
    report = answer_of(
        cost_report.sync_detailed, client=client, from_=first, to=after, group_by=arguments.by
    )
    if arguments.json:
        show_json(report)
        return
    rows: list[Sequence[object]] = [
        (" / ".join(key.name for key in row.group), *_costs(row)) for row in report.results
    ]
    rows += [("All", *_costs(total)) for total in report.totals]
    show_rows(
        (arguments.by.replace(",", " / "), "#Cost", "#Before", "#At this pace"),
        rows,
        empty="Nothing was charged in these days.",
    )


def show_usage(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print the use of a month, by project and size or whatever is asked for."""
    expand = list(GetUsageSummaryExpandItem)
    summary = answer_of(
        get_usage_summary.sync_detailed,
        client=client,
        month=arguments.month or _this_month(),
        group_by=arguments.by,
        expand=expand,
    )
    if arguments.json:
        show_json(summary)
        return
    keys = arguments.by.split(",")
    show_rows(
        (*keys, "#Unit-hours", "#Charged", "#Cost"),
        (
            (
                *(_name(row, key) for key in keys),
                hours_text(row.unit_seconds),
                hours_text(row.charged_unit_seconds),
                money_text(row.cost),
            )
            for row in summary.totals
        ),
        empty="Nothing was used.",
    )


def show_invoices(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Print invoices and notes."""
    found = _invoices(client, month=arguments.month)
    if arguments.json:
        show_json(found)
        return
    show_rows(
        ("Number", "Kind", "Month", "#Total", "#Open", "Due", "State"),
        (
            (
                row.reference,
                row.kind.value.replace("_", " "),
                row.period_label,
                money_text(row.payable),
                money_text(row.open_amount),
                row.due_on,
                row.payment_status.value or row.state.value,
            )
            for row in found
        ),
        empty="There is no invoice.",
    )


def download_invoices(client: AuthenticatedClient, arguments: Namespace) -> None:
    """Write the PDFs of final invoices into a folder, and print their paths.

    Raises:
        RefusedError: A number is unknown; no file is written then.
    """
    found = {row.reference: row for row in _invoices(client, month=arguments.month, final=True)}
    unknown = sorted(set(arguments.numbers) - found.keys())
    if unknown:
        raise RefusedError(
            f"No final invoice has the number {', '.join(unknown)}.",
            remedy="`gl invoices` lists the numbers.",
        )
    folder = Path(arguments.to)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in arguments.numbers or found:
        file = answer_of(download_invoice_pdf.sync_detailed, found[number].id, client=client)
        path = folder / f"{number.replace('/', '-')}.pdf"
        path.write_bytes(file.payload.read())
        paths.append(str(path))
    if arguments.json:
        show_json(paths)
    else:
        show_rows(("File",), ((path,) for path in paths), empty="There is no final invoice.")


def _invoices(
    client: AuthenticatedClient, *, month: str | None, final: bool = False
) -> list[Invoice]:
    state = ListInvoicesState.FINAL if final else None
    rows = rows_of(list_invoices.sync_detailed, client=client, period_label=month, state=state)
    return list(rows)


def _show_requests(
    client: AuthenticatedClient, asked: Sequence[QuotaRequest], *, as_json: bool
) -> None:
    if as_json:
        show_json(list(asked))
        return
    # What answers a change has no names.
    is_named = all(row.expanded for row in asked)
    projects = () if is_named else rows_of(list_projects.sync_detailed, client=client)
    slugs = {str(project.id): project.slug for project in projects}
    show_rows(
        ("Request", "Project", "Size", "#Units", "Until", "State", "Cost of a month"),
        (
            (
                row.id,
                _name(row, "project", slugs),
                row.size.value,
                row.requested_units,
                row.end_at.date() if row.end_at else None,
                row.state.value,
                _request_cost(row),
            )
            for row in asked
        ),
        empty="There is no request.",
    )


def _request_cost(row: QuotaRequest) -> str | None:
    """Return the cost at full use; None where it is unknown or not shown to the caller."""
    if row.cost is None or row.cost.at_full_use is None:
        return None
    return f"{row.cost.at_full_use} {row.cost.currency}"


def _costs(row: CostRow | CostTotal) -> tuple[object, ...]:
    return money_text(row.cost), money_text(row.previous_cost), money_text(row.run_rate)


def _name(
    row: QuotaLimit | QuotaRequest | UsageTotal, key: str, slugs: Mapping[str, str] = NO_SLUGS
) -> object:
    """Return the slug of what a row points at, or else its value; None for an id without a name."""
    named = getattr(row.expanded, key, None) if row.expanded else None
    value = getattr(row, "bucket_at" if key in {"day", "hour"} else key)
    other = slugs.get(str(value)) if isinstance(value, UUID) else value
    return getattr(named, "slug", None) or other


def _project_id(client: AuthenticatedClient, slug: str) -> UUID:
    """Return the id of a project by "project" or "organization/project".

    Raises:
        RefusedError: None of the caller's projects is called so, or several are.
    """
    organization, _, name = slug.rpartition("/")
    named = [
        project
        for project in rows_of(list_projects.sync_detailed, client=client, slug=name)
        if not organization or _organization_of(project) == organization
    ]
    if len(named) != 1:
        raise RefusedError(
            f"{'Several' if named else 'None'} of your projects "
            f"{'are' if named else 'is'} called {slug!r}.",
            remedy="Write organization/project." if named else "`gl usage` lists your projects.",
        )
    return UUID(str(named[0].id))


def _organization_of(project: Project) -> str:
    return str(getattr(getattr(project.expanded, "organization", None), "slug", ""))


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), tzinfo=UTC)


def _this_month() -> str:
    return f"{datetime.now(tz=UTC):%Y-%m}"


def _month(label: str | None) -> tuple[date, date]:
    """Return the first day of a month such as "2026-10" and the day after its last."""
    first = date.fromisoformat(f"{label or _this_month()}-01")
    years, month = divmod(first.month, _MONTHS_OF_A_YEAR)
    return first, date(first.year + years, month + 1, 1)
