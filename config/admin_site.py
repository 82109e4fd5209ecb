"""The site of the admin: unfold's, which lists its tables only for a page that shows the list."""

from collections.abc import Mapping
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.contrib.admin import sites
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext, gettext_noop
from unfold.apps import BasicAppConfig
from unfold.dataclasses import SearchResult
from unfold.sites import UnfoldAdminSite

from config.pages.labels import mark_labels

SEARCHED: Final[Mapping[str, str]] = {
    "tenants.Organization": gettext_noop("organization"),
    "tenants.Project": gettext_noop("project"),
    "auth.User": gettext_noop("person"),
    "billing.Invoice": gettext_noop("invoice"),
    "metering.PodAllocation": gettext_noop("pod"),
}
"""What the sidebar's search finds rows of, each by the search of its own list."""
ROWS_MAX: Final = 5
"""Of each table; its own list finds all."""
RESULTS_MAX: Final = 40
TEXT_LENGTH_MAX: Final = 200


class LedgerAdminSite(UnfoldAdminSite):  # type: ignore[misc] # It has no types.
    """unfold's site with a sidebar of our own, so that few pages show every table."""

    def register(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Register tables, and mark their labels to be translated."""
        known = set(self._registry)
        super().register(*arguments, **named)
        for model in self._registry.keys() - known:
            mark_labels(self._registry[model])

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:  # noqa: ANN401 - A list, once it is looked at.
        """Return the apps with their tables, made when a page looks at them.

        Django puts them into the context of each page: 150 links and as many permissions.
        """
        return SimpleLazyObject(
            lambda: super(LedgerAdminSite, self).get_app_list(request, app_label)
        )

    def get_sidebar_list(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the sidebar of the signed-in person's role."""
        from config.dashboard.sidebar import arrange  # noqa: PLC0415 - Models are not loaded before the site.

        return arrange(super().get_sidebar_list(request), request)

    def search(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the rows and the pages that a text finds; nothing is remembered between two.

        Organizations, projects, people, invoices and pods come first, then tables by name.
        """
        del extra_context
        text = request.GET.get("s", "").strip()[:TEXT_LENGTH_MAX]
        if not text:
            return HttpResponse()
        tables = self._search_apps(super().get_app_list(request), text.lower())
        results = [*self._found_rows(request, text), *tables]
        return TemplateResponse(
            request, "unfold/helpers/search_results.html", {"results": results[:RESULTS_MAX]}
        )

    def _found_rows(self, request: HttpRequest, text: str) -> list[SearchResult]:
        """Return the rows of the tables that people look for, where the person may open them."""
        found = []
        for label, noun in SEARCHED.items():
            page = self._registry[apps.get_model(label)]
            if not page.has_view_permission(request):
                continue
            rows, _ = page.get_search_results(request, page.get_queryset(request), text)
            table = label.replace(".", "_").lower()
            related = page.list_select_related or ()
            for row in rows.select_related(*related)[:ROWS_MAX]:
                link = reverse(f"admin:{table}_change", args=[row.pk])
                found.append(
                    SearchResult(title=str(row), description=gettext(noun), link=link, icon=None)
                )
        return found


class AdminSiteConfig(BasicAppConfig):  # type: ignore[misc] # As above.
    """unfold's app, with our site in place of its own."""

    def ready(self) -> None:
        """Put the site in its place before Django's admin looks for tables."""
        admin.site = sites.site = LedgerAdminSite()
