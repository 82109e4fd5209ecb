"""Point this very process at servers that were started after Django read its settings."""

import os
from collections.abc import Mapping

from django.conf import settings
from django.db import connections

from config.celery import app
from config.settings.base import database

ALIASES = {"default": "DATABASE_URL", "owner": "DATABASE_OWNER_URL"}


def adopt(environment: Mapping[str, str]) -> None:
    """Use the databases and the broker of an environment from now on.

    Connections that are open in this thread are closed; call it before any other thread uses one.

    Args:
        environment: What `Stack.start_datastores` returned.
    """
    os.environ.update(environment)
    databases = dict(settings.DATABASES)
    for alias, variable in ALIASES.items():
        if variable in environment:
            databases[alias] = database(environment[variable])
    connections.close_all()
    settings.DATABASES = databases
    for alias in ALIASES:
        if alias in databases:
            _forget_connection(alias)
    connections.settings = connections.configure_settings(databases)
    settings.REDIS_URL = environment["REDIS_URL"]
    app.conf.broker_url = environment["REDIS_URL"]


def _forget_connection(alias: str) -> None:
    """Drop the wrapper that was built from the old settings; the next use builds a new one."""
    if alias in connections.settings and hasattr(connections._connections, alias):  # noqa: SLF001 - Django has no public question for it.
        del connections[alias]
