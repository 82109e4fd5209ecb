"""The frame of the tenant pages: for signed-in people, with one navigation and shown refusals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import Any, Final

from django.db import OperationalError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from tenants.access import organizations_visible_to
from tenants.admin.base import actor_of_request
from tenants.admin.own_access import signed_in
from tenants.api.problems import BUSY
from tenants.domain.actors import Actor
from tenants.domain.errors import ConflictError, DomainError, NotFoundError
from tenants.domain.identity.roles import ROLE_SCOPES, RoleScope
from tenants.models import Organization

SECTIONS: Final = {
    "app_home": gettext_lazy("Home"),
    "app_costs": gettext_lazy("Costs"),
    "app_quota": gettext_lazy("Quota"),
    "app_requests": gettext_lazy("Requests"),
    "app_invoices": gettext_lazy("Invoices"),
    "app_notifications": gettext_lazy("Notifications"),
    "app_tokens": gettext_lazy("API tokens"),
}
"""The navigation: pages by name."""
ORGANIZATIONS_MAX: Final = 50
"""To choose from; a person with a platform role, and more of them, names one in the address."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Content-Security-Policy: the admin's theme needs more than this."""
View = Callable[..., HttpResponse]


def tenant_page(view: View) -> View:
    """Return a view for signed-in people that shows a refusal with its remedy and status."""

    @wraps(view)
    def answer(request: HttpRequest, **arguments: Any) -> HttpResponse:  # noqa: ANN401 - Of the address.
        try:
            return view(request, **arguments)
        except DomainError as error:
            return refused(request, error, status=error.status)
        except OperationalError as error:
            if not isinstance(error.__cause__, BUSY):
                raise
            busy = ConflictError(
                gettext("Another request is changing this at the moment."),
                remedy=gettext("Go back and send the same again in a second."),
            )
            return refused(request, busy, status=HTTPStatus.SERVICE_UNAVAILABLE)

    return signed_in(answer)


def refused(request: HttpRequest, error: DomainError, *, status: int) -> HttpResponse:
    """Return the page of a refusal."""
    is_unknown = isinstance(error, NotFoundError)
    title = gettext("Not found") if is_unknown else gettext("This was not done")
    return render_page(request, "app/refused.html", {"refusal": error}, title=title, status=status)


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    title: str,
    twin: str = "",
    status: int = HTTPStatus.OK,
) -> HttpResponse:
    """Return a page.

    Args:
        request: Whose path decides which entry of the navigation is current.
        template: Extends app/base.html.
        context: Its values.
        title: The heading.
        twin: The address of the same over the API; "" for none.
        status: Of the answer.
    """
    sections = [(reverse(name), label) for name, label in SECTIONS.items()]
    current = max((link for link, _ in sections if request.path.startswith(link)), key=len)
    frame = {
        "title": title,
        "twin": twin,
        "sections": [(link, label, link == current) for link, label in sections],
        "has_admin": _has_admin(request),
    }
    answer = render(request, template, {**context, **frame}, status=status)
    answer.headers["Content-Security-Policy"] = POLICY
    answer.headers["Cache-Control"] = "no-store"
    return answer


@require_safe
def root(request: HttpRequest) -> HttpResponse:
    """Redirect people to where they belong: to the admin, to the tenant pages, or to sign in."""
    if not request.user.is_authenticated:
        return redirect("sign_in")
    return redirect("admin:index" if _has_admin(request) else "app_home")


def _has_admin(request: HttpRequest) -> bool:
    """Whether a person may open the admin and holds a role that shows something there."""
    if not getattr(request.user, "is_staff", False):
        return False
    grants = actor_of_request(request).grants
    return any(ROLE_SCOPES[grant.role] is RoleScope.PLATFORM for grant in grants)


@dataclass(frozen=True)
class ShownOrganizations:
    """The organizations a page is about.

    Attributes:
        choices: Those that a person chooses from.
        chosen: The one that the address names, or the only one; None for all.
    """

    choices: tuple[Organization, ...]
    chosen: Organization | None

    @property
    def shown(self) -> tuple[Organization, ...]:
        """The chosen one, or all choices."""
        return self.choices if self.chosen is None else (self.chosen,)


def shown_organizations(
    request: HttpRequest, actor: Actor, rows: QuerySet[Organization] | None = None
) -> ShownOrganizations:
    """Return the organizations of a page, of which `?organization=<slug>` chooses one.

    Args:
        request: With the choice.
        actor: The person.
        rows: Those that the page may show; None for those of which the person has any role.

    Raises:
        NotFoundError: The address names another one.
    """
    known = organizations_visible_to(actor) if rows is None else rows
    choices = tuple(known.order_by("name", "slug")[:ORGANIZATIONS_MAX])
    slug = request.GET.get("organization", "")
    if not slug:
        return ShownOrganizations(choices, choices[0] if len(choices) == 1 else None)
    named = [one for one in choices if one.slug == slug]
    if not named and slug.isprintable():
        named = list(known.filter(slug=slug)[:1])
    if not named:
        raise NotFoundError("There is no such organization.", field="organization")
    return ShownOrganizations(choices, named[0])
