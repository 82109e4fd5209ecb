"""gunicorn's log of requests, without the secrets that stand in addresses of mailed links."""

from typing import Any

from gunicorn.glogging import Logger  # type: ignore[import-untyped] # It has no types.

from config.logging import cut_links


class AccessLog(Logger):  # type: ignore[misc]
    """Writes what gunicorn writes; a link to set a password or to confirm is cut off."""

    def atoms(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - gunicorn's signature.
        """Return the parts of a line by their letters in its format."""
        parts: dict[str, Any] = super().atoms(*args, **kwargs)
        return {name: cut_links(value) for name, value in parts.items()}
