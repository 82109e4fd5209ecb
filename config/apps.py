"""Django's handle on the wiring, so that its management commands are found."""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    """The wiring has commands and templates, but no tables."""

    name = "config"
    verbose_name = "GPU Ledger"
