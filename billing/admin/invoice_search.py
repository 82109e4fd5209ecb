"""Finding documents by the number that is printed on them."""

from django.db.models import QuerySet
from django.http import HttpRequest

from billing.models import Invoice
from billing.selectors.documents.invoices import numbered
from tenants.admin.base import LedgerAdmin


class NumberedAdmin(LedgerAdmin):
    """A list of documents, searched by their printed number as well."""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Invoice], search_term: str
    ) -> tuple[QuerySet[Invoice], bool]:
        """Return the document of a printed number; else what the columns of the search find."""
        found = numbered(queryset, search_term)
        if found is not None:
            return found, False
        rows: tuple[QuerySet[Invoice], bool] = super().get_search_results(
            request, queryset, search_term
        )
        return rows
