"""The admin page "Quota board": use, overage, waiting workloads and hoarded quota."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from metering.domain.efficiency.rules import thresholds_of
from quotas.access import READ_LIMIT
from quotas.domain.headroom.headroom import Exhaustion, ExhaustionOutcome
from quotas.selectors.headroom.board import (
    OrganizationUsage,
    ProjectUsage,
    board_summary,
    quota_board,
)
from quotas.selectors.headroom.board_lines import BoardLine
from quotas.selectors.limits.in_force import GrantTerm
from tenants.access import organizations_visible_to, projects_visible_to
from tenants.admin.base import actor_of_request

TEMPLATE: Final = "admin/quotas/quotalimit/board.html"
ORGANIZATIONS_MAX: Final = 10
"""More would make the page too long; the filter shows any one alone."""
REFUSALS_MAX: Final = 5


@dataclass(frozen=True)
class BoardRow:
    """One line as text. `level` is 0 for an organization, 1 for a project, 2 for a user."""

    level: int
    holder: str
    line: BoardLine
    is_first: bool
    is_suspended: bool

    @property
    def size(self) -> str:
        """Return what the limit is about, such as "Large H100 on hopper"."""
        group = f" {self.line.model_group}" if self.line.model_group else ""
        size = f"{self.line.size.value.capitalize()}{group}"
        if not self.line.cluster:
            return size
        return gettext("{size} on {cluster}").format(size=size, cluster=self.line.cluster)

    @property
    def tone(self) -> str:
        """Return "over", "none" where none may be held, "full", "near", "calm" or "open"."""
        headroom = self.line.headroom
        if headroom.over_units:
            return "over"
        if headroom.used_percent is None:
            return "open"
        if headroom.limit_units == 0:
            return "none"
        if headroom.used_percent == 100:  # noqa: PLR2004 - All of it.
            return "full"
        return "near" if headroom.used_percent >= NEAR_PERCENT else "calm"

    @property
    def reserved_percent(self) -> int:
        """Return the width of the admitted but unbound part, after the held part."""
        headroom = self.line.headroom
        if not headroom.reserved_units:
            return 0
        return (headroom.used_percent or 0) - headroom.held_percent

    @property
    def taken(self) -> str:
        """Return what is taken of what, such as "6 of 8" or "3, no limit"."""
        units = self.line.headroom.limit_units
        if self.line.limit_state == "unlimited":
            text = gettext("{taken}, unlimited")
        elif units is None:
            text = gettext("{taken}, no limit")
        else:
            text = gettext("{taken} of {limit}")
        return text.format(taken=self.line.headroom.taken_units, limit=units)

    @property
    def grants(self) -> list[str]:
        """Return each grant in force, such as "+4 until Fri 6 Nov"."""
        return [grant_text(grant) for grant in self.line.grants]

    @property
    def forecast(self) -> str:
        """Return when it is full, if that is expected; "" otherwise."""
        return "" if self.line.exhaustion is None else exhaustion_text(self.line.exhaustion)

    @property
    def is_full_soon(self) -> bool:
        """Whether the forecast is a warning."""
        exhaustion = self.line.exhaustion
        return (
            exhaustion is not None
            and exhaustion.outcome is not ExhaustionOutcome.TOO_LITTLE_HISTORY
        )


NEAR_PERCENT: Final = 90
"""From there on admission warns too."""


def grant_text(grant: GrantTerm) -> str:
    """Return a grant as text; for a loan with its side."""
    kind = ""
    if grant.reason == "loan":
        kind = gettext("borrowed") if grant.units > 0 else gettext("lent")
    until = gettext("until ended")
    if grant.end_at is not None:
        until = gettext("until {day}").format(day=day_text(grant.end_at))
    return " ".join(part for part in (f"{grant.units:+d}", kind, until) if part)


def day_text(at: date) -> str:
    """Return a day as people say it, such as "Fri 6 Nov"."""
    return date_format(at, gettext("D j M"))


def exhaustion_text(exhaustion: Exhaustion) -> str:
    """Return the text of the trend; "" without a concern."""
    if exhaustion.outcome is ExhaustionOutcome.EXPECTED and exhaustion.on is not None:
        return gettext("full about {day}").format(day=day_text(exhaustion.on))
    return {
        ExhaustionOutcome.REACHED: gettext("full by its trend"),
        ExhaustionOutcome.TOO_LITTLE_HISTORY: gettext("too little history"),
    }.get(exhaustion.outcome, "")


def board_page(request: HttpRequest, *, context: dict[str, Any]) -> TemplateResponse:
    """Return the page for the signed-in person; `?organization=<slug>` shows one."""
    actor, at = actor_of_request(request), timezone.now()
    organizations = organizations_visible_to(actor, READ_LIMIT).order_by("slug")
    chosen = request.GET.get("organization", "")
    shown = organizations.filter(slug=chosen) if chosen else organizations
    board = quota_board(
        list(shown[:ORGANIZATIONS_MAX]),
        projects=projects_visible_to(actor, READ_LIMIT),
        at=at,
        burst_classes=settings.BURST_PRIORITY_CLASSES,
        thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
        has_forecast=True,
    )
    return TemplateResponse(
        request,
        TEMPLATE,
        {
            **context,
            "at": at,
            "summary": board_summary(board),
            "organizations": [_organization(one) for one in board],
            "choices": organizations.values_list("slug", "name"),
            "chosen": chosen,
            "organizations_max": ORGANIZATIONS_MAX,
        },
    )


def _organization(organization: OrganizationUsage) -> dict[str, Any]:
    waiting = [
        {"project": project.slug, "refused": refused}
        for project in organization.projects
        for refused in project.refusals
    ]
    return {
        "name": organization.name,
        "slug": organization.slug,
        "suspension": organization.suspension,
        "rows": list(_rows(organization)),
        "waiting": waiting[:REFUSALS_MAX],
        "waiting_more": waiting[REFUSALS_MAX:],
    }


def _rows(organization: OrganizationUsage) -> Iterator[BoardRow]:
    yield from whole_rows(organization)
    for project in organization.projects:
        yield from project_rows(project)


def whole_rows(organization: OrganizationUsage) -> Iterator[BoardRow]:
    """Return the rows of an organization itself."""
    yield from _lines(0, gettext("whole organization"), organization.lines, organization.suspension)


def project_rows(project: ProjectUsage) -> Iterator[BoardRow]:
    """Return the rows of a project and its users."""
    yield from _lines(1, project.name, project.lines, project.suspension)
    for user in project.users:
        yield from _lines(2, user.username, user.lines, None)


def _lines(
    level: int, holder: str, lines: Iterable[BoardLine], suspension: str | None
) -> Iterator[BoardRow]:
    """Give the lines that say something; a holder without any still has its name."""
    shown = [line for line in lines if _has_figures(line)]
    for place, line in enumerate(shown or list(lines)[:1]):
        yield BoardRow(level, holder, line, place == 0, suspension is not None)


def _has_figures(line: BoardLine) -> bool:
    headroom = line.headroom
    return bool(
        line.limit_state != "unset"
        or headroom.taken_units
        or headroom.burst_used_units
        or line.refused
    )
