"""Django's handle on billing."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """The billing app."""

    name = "billing"
