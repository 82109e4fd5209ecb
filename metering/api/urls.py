"""Where the REST doors of metering hang under /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
