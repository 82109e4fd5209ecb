"""Django's handle on the wiring, so that its management commands are found."""

from importlib import import_module

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    """The wiring has commands and templates, but no tables."""

    name = "config"
    verbose_name = "GPU Ledger"

    def ready(self) -> None:
        """Load Celery's app, so that a task sent from any process finds the broker."""
        import_module("config.celery")
