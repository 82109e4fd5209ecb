"""Destinations of export files: mail, buckets, SFTP and webhooks. They import no model."""

import os
from collections.abc import Mapping
from typing import Any, Final

from django.utils.module_loading import import_string

from billing.protocols import ExportDestination
from tenants.domain.errors import SourceUnavailableError

_ENVIRONMENT: Final = "env:"


def export_destinations(
    setting: Mapping[str, Mapping[str, Any]],
) -> dict[str, ExportDestination]:
    """Return the destination of each target; a missing target cannot be delivered to.

    Args:
        setting: {"sftp": {"BACKEND": dotted path of a callable, "OPTIONS": its arguments}, ...}.
    """
    return {
        target: import_string(chosen["BACKEND"])(**chosen.get("OPTIONS", {}))
        for target, chosen in setting.items()
    }


def secret_of(reference: str) -> str:
    """Return the secret in the variable that a reference names.

    Raises:
        SourceUnavailableError: It is not set.
    """
    secret = os.environ.get(reference.removeprefix(_ENVIRONMENT), "")
    if not reference.startswith(_ENVIRONMENT) or not secret:
        raise SourceUnavailableError(
            "The variable that holds the secret is not set.", reason="secret_missing"
        )
    return secret
