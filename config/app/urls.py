"""The addresses under /app/."""

from django.urls import path

from config.app import costs, home, invoices, notifications, quota, requests, tokens

urlpatterns = [
    path("", home.home, name="app_home"),
    path("costs/", costs.costs, name="app_costs"),
    path("quota/", quota.quota, name="app_quota"),
    path("requests/", requests.quota_requests, name="app_requests"),
    path("requests/new/", requests.ask, name="app_request_new"),
    path("requests/<uuid:request_id>/", requests.quota_request, name="app_request"),
    path("requests/<uuid:request_id>/<str:verb>/", requests.act, name="app_request_act"),
    path("invoices/", invoices.invoices, name="app_invoices"),
    path("invoices/<uuid:invoice_id>/", invoices.invoice, name="app_invoice"),
    path("notifications/", notifications.notifications, name="app_notifications"),
    path("tokens/", tokens.tokens, name="app_tokens"),
    path("tokens/<uuid:token_id>/revoke/", tokens.revoke, name="app_token_revoke"),
]
