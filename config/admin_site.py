"""The site of the admin: unfold's, which lists its tables only for a page that shows the list."""

from typing import Any

from django.contrib import admin
from django.contrib.admin import sites
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from unfold.apps import BasicAppConfig
from unfold.sites import UnfoldAdminSite


class LedgerAdminSite(UnfoldAdminSite):  # type: ignore[misc] # It has no types.
    """unfold's site with a sidebar of our own, so that few pages show every table."""

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:  # noqa: ANN401 - A list, once it is looked at.
        """Return the apps with their tables, made when a page looks at them.

        Django puts them into the context of each page: 150 links and as many permissions.
        """
        return SimpleLazyObject(
            lambda: super(LedgerAdminSite, self).get_app_list(request, app_label)
        )


class AdminSiteConfig(BasicAppConfig):  # type: ignore[misc] # As above.
    """unfold's app, with our site in place of its own."""

    def ready(self) -> None:
        """Put the site in its place before Django's admin looks for tables."""
        admin.site = sites.site = LedgerAdminSite()
