"""Where the REST doors of quotas hang under /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
