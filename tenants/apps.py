"""Django's handle on tenants."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """The tenants app."""

    name = "tenants"
