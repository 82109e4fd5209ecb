"""Where every door hangs."""

from django.contrib import admin
from django.urls import include, path, re_path

from config.api import unknown_resource
from config.health import healthz, readyz
from config.metrics import metrics

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("config.api")),
    re_path(r"^api(?:/(?P<rest>.*))?$", unknown_resource),
]
