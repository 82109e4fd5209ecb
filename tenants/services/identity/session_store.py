"""Django's sessions in the database, each with its person (SESSION_ENGINE)."""

import time
from typing import Any, Final
from uuid import UUID

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db

from tenants.domain.identifiers import new_id
from tenants.models import PersonSession

PUBLIC_ID: Final = "public_id"
BEGAN_AT: Final = "began_at"
USED_AT: Final = "used_at"
"""Keys of a session's data: who it is to its person, and whole seconds since the epoch."""


class SessionStore(db.SessionStore):
    """Source: Django's documentation, "Extending database-backed session engines"."""

    @classmethod
    def get_model_class(cls) -> type[PersonSession]:
        """Return the table."""
        return PersonSession

    def create_model_instance(self, data: dict[str, Any]) -> PersonSession:
        """Return the row of a session; one that a person has just signed in to begins here."""
        holder = data.get(SESSION_KEY)
        if holder is not None and PUBLIC_ID not in data:
            now = int(time.time())
            data.update({PUBLIC_ID: str(new_id()), BEGAN_AT: now, USED_AT: now})
        row = super().create_model_instance(data)
        if not isinstance(row, PersonSession):
            raise TypeError("the table is not ours")
        row.user_id = None if holder is None else int(holder)
        row.public_id = None if holder is None else UUID(data[PUBLIC_ID])
        return row
