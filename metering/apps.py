"""Django's handle on metering."""

from django.apps import AppConfig


class MeteringConfig(AppConfig):
    """The metering app."""

    name = "metering"
