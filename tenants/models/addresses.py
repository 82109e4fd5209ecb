"""Addresses of servers, which beside our own are often named by their host alone."""

import re
from typing import TYPE_CHECKING, Any, Final, cast

from django import forms
from django.core.validators import URLValidator
from django.db import models
from django.utils.deconstruct import deconstructible


@deconstructible
class ServerURLValidator(URLValidator):
    """Accepts every URL that Django's does, and hosts without a domain: `http://prometheus:9090`."""

    regex = re.compile(
        cast("re.Pattern[str]", URLValidator.regex).pattern.replace(
            "localhost", URLValidator.hostname_re
        ),
        re.IGNORECASE,
    )


if TYPE_CHECKING:
    _URLField = models.URLField[str, str]
else:
    _URLField = models.URLField

SERVER_URL: Final = ServerURLValidator()


class ServerURLFormField(forms.URLField):
    """The form field of a `ServerURLField`."""

    default_validators = [SERVER_URL]


class ServerURLField(_URLField):
    """The URL of a server; within a namespace or a compose file its host has no domain."""

    default_validators = [SERVER_URL]

    def deconstruct(self) -> Any:  # noqa: ANN401 - Django's signature.
        """Return it as Django's field, which has the same column."""
        name, _, arguments, keywords = super().deconstruct()
        return name, "django.db.models.URLField", arguments, keywords

    def formfield(self, **kwargs: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Return a form field that accepts the same."""
        return super().formfield(**{"form_class": ServerURLFormField, **kwargs})
