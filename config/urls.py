"""The addresses of every view."""

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from config.api import unknown_resource
from config.health import healthz, readyz
from tenants.admin.accounts import OwnPasswordView
from tenants.admin.sign_in import sign_in

handler403 = "config.error_pages.forbidden"
handler404 = "config.error_pages.not_found"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="sign_in"), name="root"),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("accounts/", include("config.accounts")),
    path("admin/login/", sign_in),
    path("admin/password_change/", admin.site.admin_view(OwnPasswordView.as_view())),
    path("admin/", admin.site.urls),
    path("api/v1/", include("config.api")),
    re_path(r"^api(?:/(?P<rest>.*))?$", unknown_resource),
]
