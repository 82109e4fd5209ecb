"""API tokens over HTTP: `Authorization: Bearer gl_<prefix>_<secret>`."""

from rest_framework.authentication import BaseAuthentication


class ApiTokenAuthentication(BaseAuthentication):
    """Authenticate a request by its API token."""
