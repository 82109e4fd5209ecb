"""Django's handle on quotas."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """The quotas app."""

    name = "quotas"
