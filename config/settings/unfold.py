"""Theme and sidebar of the admin."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from django.apps import apps
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext_lazy

PATHS_MAX: Final = 1_000
"""Of pages whose entry of the sidebar is remembered."""


def _entry(title: str, icon: str, target: str) -> dict[str, Any]:
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(target),
        "active": _is_current(target),
    }


def _is_current(target: str) -> Callable[[HttpRequest], bool]:
    """Return whether a page belongs to an entry: to the one whose link is nearest above it.

    Some pages hang below a table's and have an entry of their own, such as the quota board.
    """

    def is_current(request: HttpRequest) -> bool:
        return _link(target) == _nearest_link(request.path)

    return is_current


@cache
def _link(target: str) -> str:
    """Return the path of an entry; every page asks for all of them."""
    return reverse(target)


@lru_cache(maxsize=PATHS_MAX)
def _nearest_link(path: str) -> str:
    """Return the longest link of the sidebar that a path is below; the dashboard is only itself."""
    dashboard, *links = _links()
    above = [link for link in links if path.startswith(link)]
    return path if path == dashboard else max(above, key=len, default="")


@cache
def _links() -> tuple[str, ...]:
    """Return the links of the sidebar in its order; the dashboard comes first."""
    groups = UNFOLD["SIDEBAR"]["navigation"]
    return tuple(str(entry["link"]) for group in groups for entry in group["items"])


def _group(title: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "separator": True, "collapsible": False, "items": list(entries)}


def _table(title: str, icon: str, model: str) -> dict[str, Any]:
    """Return a table's entry, offered only to those its page opens for."""
    entry = _entry(title, icon, f"admin:{model}_changelist")
    return {**entry, "permission": _may_see(model)}


def _may_see(model: str) -> Callable[[HttpRequest], bool]:
    app, _, name = model.partition("_")

    def may_see(request: HttpRequest) -> bool:
        # Loading the admin is a third of a process's start, and most processes have no pages.
        from django.contrib import admin  # noqa: PLC0415 - As above.

        page = admin.site.get_model_admin(apps.get_model(app, name))
        return page.has_view_permission(request)

    return may_see


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "GPU Ledger",
    "SITE_HEADER": "GPU Ledger",
    "SITE_SUBHEADER": gettext_lazy("Quota, metering, chargeback"),
    "SITE_SYMBOL": "memory",
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda _: static("gpu_ledger/favicon.svg"),
        }
    ],
    "STYLES": [lambda _: static("gpu_ledger/admin.css")],
    "SCRIPTS": [lambda _: static("gpu_ledger/admin.js")],
    "SITE_URL": None,
    "ACCOUNT": {
        "navigation": [
            {
                "title": gettext_lazy("Change password"),
                "link": reverse_lazy("admin:password_change"),
            },
            {"title": gettext_lazy("Your access"), "link": reverse_lazy("own_access")},
            {
                "title": gettext_lazy("Your notifications"),
                "link": reverse_lazy("app_notifications"),
            },
        ]
    },
    "SHOW_LANGUAGES": True,
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "DASHBOARD_CALLBACK": "config.dashboard.context.dashboard_context",
    "COLORS": {
        "primary": {
            "50": "oklch(97.5% .013 165)",
            "100": "oklch(94% .04 165)",
            "200": "oklch(89% .08 165)",
            "300": "oklch(82% .12 165)",
            "400": "oklch(74% .14 165)",
            "500": "oklch(65% .14 165)",
            "600": "oklch(54% .12 165)",
            "700": "oklch(45% .1 165)",
            "800": "oklch(38% .08 165)",
            "900": "oklch(32% .06 165)",
            "950": "oklch(22% .045 165)",
        }
    },
    "SIDEBAR": {
        "show_search": True,
        "show_all_applications": False,
        "navigation": [
            _group("Overview", _entry("Dashboard", "dashboard", "admin:index")),
            _group(
                "Billing",
                {
                    **_entry("Month close", "task_alt", "admin:billing_billingperiod_close_month"),
                    "permission": _may_see("billing_billingperiod"),
                },
                {
                    **_entry("Costs", "query_stats", "admin:billing_dailycost_costs"),
                    "permission": _may_see("billing_dailycost"),
                },
                _table("Invoices", "receipt_long", "billing_invoice"),
                _table("Billing periods", "calendar_month", "billing_billingperiod"),
                _table("Disputes", "gavel", "billing_dispute"),
                _table("Payments", "account_balance", "billing_payment"),
                _table("Opening balances", "start", "billing_openingbalance"),
                _table("Write-offs", "remove_circle", "billing_writeoff"),
                _table("Document deliveries", "outgoing_mail", "billing_documentdelivery"),
                _table("Reminders", "notifications_active", "billing_reminder"),
                _table("Reminder stops", "notifications_paused", "billing_reminderstop"),
                _table("Journal", "book", "billing_journalentry"),
                _table("Export schedules", "event_repeat", "billing_exportschedule"),
                _table("Export runs", "cloud_upload", "billing_exportrun"),
                _table("Charges", "payments", "billing_charge"),
                _table("Unpriced usage", "money_off", "billing_accrualexception"),
                {
                    **_entry("Waste", "savings", "admin:billing_charge_waste"),
                    "permission": _may_see("billing_charge"),
                },
                _table("Prices", "sell", "billing_price"),
                _table("Price calendars", "schedule", "billing_pricecalendar"),
                _table("Price drafts", "edit_note", "billing_pricedraft"),
                _table("Repricings", "price_change", "billing_repricing"),
                _table("Price books", "menu_book", "billing_pricebook"),
                _table("Price book assignments", "assignment_ind", "billing_pricebookassignment"),
                _table("Customer classes", "category", "billing_customerclass"),
                _table("Class memberships", "group_work", "billing_customerclassmembership"),
                _table("Tier schedules", "stacked_bar_chart", "billing_tierschedule"),
                _table("Minimum charges", "vertical_align_bottom", "billing_minimumcharge"),
                _table("Tax rates", "percent", "billing_taxrate"),
                _table("Tax treatments", "account_balance", "billing_taxtreatment"),
                _table("Issuers", "domain", "billing_issuer"),
                _table("Recipients", "mark_email_read", "billing_recipient"),
                _table("Project routes", "alt_route", "billing_projectroute"),
            ),
            _group(
                "Quotas",
                _entry("Quota board", "leaderboard", "admin:quotas_quotalimit_board"),
                _table("Requests", "inbox", "quotas_quotarequest"),
                _table("Request policies", "rule", "quotas_requestpolicy"),
                _table("Limits", "speed", "quotas_quotalimit"),
                _table("Grants", "more_time", "quotas_quotagrant"),
                _table("Loans", "handshake", "quotas_quotaloan"),
                _table("Loan policies", "balance", "quotas_loanpolicy"),
                _table("Suspensions", "block", "quotas_quotasuspension"),
                _table("Live use", "memory", "quotas_reservation"),
                _table("Refusals", "do_not_disturb_on", "quotas_admissionrefusal"),
                _table("Preemption", "low_priority", "quotas_preemptionplan"),
                _table("Protected windows", "shield", "quotas_protectedwindow"),
                _table("Automatic preemption", "robot_2", "quotas_preemptionpolicy"),
                _table("Isolation", "shield_lock", "quotas_isolationpolicy"),
                {
                    **_entry("Device sharing", "group", "admin:metering_deviceusage_sharing"),
                    "permission": _may_see("metering_deviceusage"),
                },
                _table("Enforcement", "gavel", "quotas_enforcementtarget"),
            ),
            _group(
                "Metering",
                _entry("Calendar", "calendar_view_month", "admin:metering_meteringwindow_calendar"),
                _table("Exceptions", "report", "metering_meteringexception"),
                _table("Device events", "bug_report", "metering_deviceevent"),
                _table("Credit proposals", "undo", "metering_creditproposal"),
                _table("Waste findings", "hourglass_empty", "metering_wastefinding"),
                _table("Cluster health", "monitor_heart", "metering_clusterhealth"),
                _table("Windows", "schedule", "metering_meteringwindow"),
                _table("Usage records", "data_usage", "metering_usagerecord"),
                _table("Corrections", "published_with_changes", "metering_usagecorrection"),
                _table("Rechecks", "update", "metering_windowrecheck"),
                _table("Allocations", "developer_board", "metering_podallocation"),
                _table("Capacity", "stacked_bar_chart", "metering_capacityrecord"),
                _table("Device usage", "memory", "metering_deviceusage"),
                _table("Catalogue", "category", "metering_catalogueversion"),
            ),
            _group(
                "Tenants",
                _table("Organizations", "domain", "tenants_organization"),
                _table("Projects", "folder", "tenants_project"),
                _table("Memberships", "badge", "tenants_membership"),
                _table("Clusters", "dns", "tenants_cluster"),
                _table("Namespace bindings", "link", "tenants_namespacebinding"),
                _table("Service accounts", "smart_toy", "tenants_serviceaccount"),
                _table("API tokens", "key", "tenants_apitoken"),
                _table("Users", "person", "auth_user"),
                _table("Account changes", "how_to_reg", "tenants_accountchange"),
                _table("Notification endpoints", "notifications", "tenants_notificationendpoint"),
                _table("Deliveries", "outgoing_mail", "tenants_notificationdelivery"),
                _table("Muted mails", "notifications_off", "tenants_notificationpreference"),
                _table("Audit trail", "history", "tenants_auditentry"),
                _table("Archived months", "inventory_2", "tenants_archivedmonth"),
            ),
        ],
    },
}
