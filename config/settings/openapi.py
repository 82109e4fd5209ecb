"""How the API is described: texts, tags and names that no view can derive."""

from typing import Any, Final

_DESCRIPTION: Final = """\
Quota, metering and chargeback for shared GPU clusters.

- **Sign in** with `Authorization: Bearer <token>`, or in the browser with the session of the
  admin. An answer holds what your roles reach; what they do not reach does not exist (404).
- **Lists** are pages: follow `next` until it is null. `page_size` is 1 to 200. An unknown query
  parameter is refused.
- **Money** is `{"amount": "12.30", "currency": "EUR"}`, never a JSON number. Times are UTC.
- **Writes** that grant quota or make money take `Idempotency-Key`: sent again, they change
  nothing. Changes take the ETag of what is changed as `If-Match`.
- **Refusals** are `application/problem+json` (RFC 9457) with a stable `code`, the `field` and the
  `remedy`.
"""
_PAGE: Final = """{
  deepLinking: true,
  defaultModelsExpandDepth: -1,
  displayRequestDuration: true,
  docExpansion: "list",
  filter: true,
  plugins: [{
    fn: {
      opsFilter: (tags, phrase) => {
        const words = phrase.toLowerCase().split(/\\s+/);
        const isFound = (name) => (one) => {
          const said = ["operationId", "summary", "description"];
          const texts = said.map((key) => one.getIn(["operation", key]));
          const text = [name, one.get("path"), ...texts].join(" ").toLowerCase();
          return words.every((word) => text.includes(word));
        };
        const narrowed = tags.map((tag, name) => tag.update(
          "operations", (operations) => operations.filter(isFound(name))));
        return narrowed.filter((tag) => tag.get("operations").size > 0);
      },
    },
  }],
  onComplete: () => {
    const box = document.querySelector(".operation-filter-input");
    box.placeholder = "Search paths, summaries and descriptions";
    box.setAttribute("aria-label", "Search operations");
  },
}"""
"""Settings of Swagger UI, as its script has them; its own search knows tags only."""
_TAGS: Final = {
    "Organizations and clusters": "Organizations, their projects, clusters and namespaces.",
    "People and access": "Roles, invitations, service accounts, tokens and sessions.",
    "Notifications and audit": "Events by mail and webhook, and who changed what.",
    "Usage": "Metered hours, usage records, their corrections and exceptions.",
    "Devices and waste": "Activity and health of devices, idle usage, credits for broken hardware.",
    "Quotas": "Limits, grants, headroom, admission, enforcement and isolation.",
    "Quota requests": "Requests for quota and who decides them.",
    "Loans and preemption": "Idle quota on loan, and plans that stop workloads.",
    "Prices and taxes": "Price books, discounts, calendars, minimum charges and taxes.",
    "Charges and invoices": "Rated usage, billing periods, documents and their parties.",
    "Receivables and journal": "Payments, reminders, write-offs, statements and the journal.",
}
OPENAPI: Final[dict[str, Any]] = {
    # The tag of a view is that of the longest module name that its own begins with.
    "TAGS": {
        "tenants.api": "Organizations and clusters",
        "tenants.api.identity": "People and access",
        "tenants.api.notifications": "Notifications and audit",
        "tenants.api.audit": "Notifications and audit",
        "metering.api": "Usage",
        "metering.api.device": "Devices and waste",
        "metering.api.cluster_health": "Devices and waste",
        "metering.api.credit_proposals": "Devices and waste",
        "metering.api.waste_findings": "Devices and waste",
        "quotas.api": "Quotas",
        "quotas.api.requests": "Quota requests",
        "quotas.api.lending": "Loans and preemption",
        "quotas.api.preemption": "Loans and preemption",
        "billing.api": "Charges and invoices",
        "billing.api.pricing": "Prices and taxes",
        "billing.api.taxes": "Prices and taxes",
        "billing.api.ledger": "Receivables and journal",
    },
    # An operation is `<action>_<noun>` by its view, such as approve_quota_request, but for these.
    "OPERATION_IDS": {
        "accept_evidence_metering_exception": "accept_metering_evidence",
        "accrue_accounting_month": "post_accruals",
        "bulk_quota_request": "create_quota_requests",
        "comments_quota_request": "create_quota_request_comment",
        "continue__reminder_stop": "resume_reminders",
        "csv_invoice": "download_invoice_csv",
        "csv_journal_batch": "download_journal_batch_csv",
        "days_invoice_line": "list_invoice_line_days",
        "decide_range_metering_window": "decide_metering_windows",
        "import_file_payment": "import_payments",
        "messages_dispute": "create_dispute_message",
        "pdf_invoice": "download_invoice_pdf",
        "preview_binding_incident": "preview_namespace_binding",
        "preview_catalogue_version": "preview_catalogue_rules",
        "preview_decision_metering_window": "preview_metering_decision",
        "prices_invoice_line": "list_invoice_line_prices",
        "release_balance_invoice": "release_invoice_balance",
        "remedies_accrual_exception": "list_unpriced_remedies",
        "resume_jobs_preemption_plan": "resume_preempted_jobs",
        "usage_records_charge": "list_charge_usage_records",
    },
}

SPECTACULAR_SETTINGS = {
    "TITLE": "GPU Ledger",
    "DESCRIPTION": _DESCRIPTION,
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "TAGS": [{"name": name, "description": text} for name, text in _TAGS.items()],
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": _PAGE,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "tenants.api.openapi.components.complete",
    ],
    "ENUM_NAME_OVERRIDES": {
        "LifecycleStateEnum": "tenants.models.organization.LifecycleState",
        "InvoiceStateEnum": [("draft", "Draft"), ("final", "Final")],
        "DisputeStateEnum": "billing.models.dispute.DISPUTE_STATE_CHOICES",
        "InvoiceKindEnum": "billing.models.invoice.KIND_CHOICES",
        "ExportRunStateEnum": "billing.models.export.RUN_STATE_CHOICES",
        "ExportTargetEnum": "billing.models.export.TARGET_CHOICES",
        "JournalEventEnum": "billing.models.ledger.JournalEntry.Event",
        "PaymentKindEnum": "billing.models.payment.PaymentKind",
        "PriceDraftStateEnum": "billing.models.price_change.PriceDraftState",
        "RepricingStateEnum": "billing.models.price_change.RepricingState",
        "TaxCategoryEnum": "billing.models.tax.CATEGORY_CHOICES",
        "TierBasisEnum": "billing.models.tier.BASIS_CHOICES",
        "TierKindEnum": "billing.models.tier.TIER_KIND_CHOICES",
        "TierScopeEnum": "billing.models.tier.SCOPE_CHOICES",
        "TierSpanEnum": "billing.models.tier.SPAN_CHOICES",
        "InvoiceLineKindEnum": "billing.models.invoice.LINE_KIND_CHOICES",
        "WriteOffStateEnum": "billing.models.write_off.WRITE_OFF_STATE_CHOICES",
        "SizeEnum": "quotas.models.limit.SIZE_CHOICES",
        "WorkKindEnum": "quotas.models.isolation.WORK_KIND_CHOICES",
        "ServingModeEnum": "quotas.models.isolation.SERVING_MODE_CHOICES",
        "PreemptionPlanStateEnum": [
            ("planned", "Planned"),
            ("running", "Running"),
            ("done", "Done"),
            ("stopped", "Stopped"),
            ("expired", "Expired"),
        ],
        "PreemptionReasonEnum": [
            ("over_limit", "Over a limit"),
            ("burst_yield", "Burst must yield"),
        ],
        "PreemptionModeEnum": "quotas.models.preemption.PreemptionMode",
        "GrantStateEnum": ["coming", "in_force", "over", "cancelled"],
        "LoanModeEnum": "quotas.models.loan.LoanMode",
        "NotificationKindEnum": [("mail", "Mail"), ("webhook", "Webhook")],
    },
}
