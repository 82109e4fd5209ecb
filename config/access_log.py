"""gunicorn's log of requests, without the secrets that stand in addresses of mailed links."""

import logging
from typing import Any, Final

from gunicorn.glogging import Logger  # type: ignore[import-untyped] # It has no types.

from config.logging import cut_links


class _WithoutLinks(logging.Filter):
    """Cuts links in lines about requests that fail."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the text; every line is written."""
        record.msg, record.args = cut_links(record.getMessage()), ()
        return True


_WITHOUT_LINKS: Final = _WithoutLinks()


class AccessLog(Logger):  # type: ignore[misc]
    """Writes what gunicorn writes; a link to set a password or to confirm is cut off."""

    def setup(self, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's signature.
        """Set both logs up."""
        super().setup(cfg)
        self.error_log.addFilter(_WITHOUT_LINKS)

    def atoms(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - gunicorn's signature.
        """Return the parts of a line by their letters in its format."""
        parts: dict[str, Any] = super().atoms(*args, **kwargs)
        return {name: cut_links(value) for name, value in parts.items()}
