"""What is done beside a final invoice: buttons on its page, which post to services."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext
from django.views.decorators.http import require_POST
from unfold.views import ChangeList

from billing.access import access_invoice
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, ForbiddenError, NotFoundError

INVOICE_PAGE: Final = "admin:billing_invoice_change"


@dataclass(frozen=True)
class InvoiceStep:
    """A button.

    Attributes:
        capability: Required of the signed-in person.
        call: Takes the form, the row, the actor and the time.
        done: The sentence that is shown.
    """

    capability: str
    call: Callable[[HttpRequest, Any, Actor, datetime], object]
    done: str


class InvoiceChangeList(ChangeList):
    """A list whose rows lead to the page of their invoice."""

    def url_for_result(self, result: Any) -> str:  # noqa: ANN401 - Any row with a document.
        """Return the invoice's page."""
        return invoice_page(result.document_id)


class InvoiceStepsAdmin(LedgerAdmin):
    """The list of what is done beside final invoices, and its buttons on their pages.

    Attributes:
        first: What makes a row, of an invoice.
        steps: By name, what is done to a row.
    """

    first: ClassVar[InvoiceStep]
    steps: ClassVar[Mapping[str, InvoiceStep]]

    def access(self, actor: Actor, row_id: UUID, capability: str) -> Any:  # noqa: ANN401 - Any row.
        """Return a row over which an actor holds a capability."""
        raise NotImplementedError

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:  # noqa: ANN401, ARG002
        """Return the list that leads to invoices."""
        return InvoiceChangeList

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return the steps, before the pages of every table."""
        name = f"billing_{self.opts.model_name}"
        view = self.admin_site.admin_view
        own = [
            path(f"<uuid:row_id>/{key}/", view(self._step), {"key": key}, name=f"{name}_{key}")
            for key in self.steps
        ]
        first = path("<uuid:invoice_id>/open/", view(self._first), name=f"{name}_open")
        return [first, *own, *super().get_urls()]

    @method_decorator(require_POST)
    def _first(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        actor = actor_of_request(request)
        invoice = reach(lambda: access_invoice(actor, invoice_id, self.first.capability))
        return self._perform(request, self.first, invoice, invoice_id=invoice_id)

    @method_decorator(require_POST)
    def _step(self, request: HttpRequest, row_id: UUID, *, key: str) -> HttpResponse:
        actor, step = actor_of_request(request), self.steps[key]
        row = reach(lambda: self.access(actor, row_id, step.capability))
        return self._perform(request, step, row, invoice_id=row.document_id)

    def _perform(
        self,
        request: HttpRequest,
        step: InvoiceStep,
        row: Any,  # noqa: ANN401 - An invoice, or a row of this table.
        *,
        invoice_id: UUID,
    ) -> HttpResponse:
        """Call a service, show the result, and return to the invoice's page."""
        actor, at = actor_of_request(request), timezone.now()
        try:
            step.call(request, row, actor, at)
        except DomainError as error:
            self.audit_refusal(error, object_id=row.pk, actor=actor, at=at)
            self.report_refusal(request, error)
        else:
            self.message_user(request, gettext(step.done), messages.SUCCESS)
        return HttpResponseRedirect(invoice_page(invoice_id))


def invoice_page(invoice_id: UUID) -> str:
    """Return the address of what is beside an invoice, on its page."""
    return f"{reverse(INVOICE_PAGE, args=[invoice_id])}#beside"


def reach(access: Callable[[], Any]) -> Any:  # noqa: ANN401 - Any row.
    """Return a row, or answer as the admin does: 403 or 404."""
    try:
        return access()
    except ForbiddenError as error:
        raise PermissionDenied from error
    except NotFoundError as error:
        raise Http404 from error
