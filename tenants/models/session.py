"""Sessions of browsers: Django's, with whose they are, so that a person can list and end them."""

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class PersonSession(AbstractBaseSession):
    """One browser's session; nothing is kept of it beside what Django keeps.

    The key is what proves the browser and is never shown. `public_id` names the session to its
    person; a session that changes its key has two rows for a moment.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sessions", null=True
    )
    public_id = models.UUIDField(null=True, db_index=True)

    def __str__(self) -> str:
        """Return which it is: never the key."""
        return str(self.public_id)

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        """Return what decodes a row."""
        return SessionStore
