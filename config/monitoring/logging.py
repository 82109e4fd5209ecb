"""Logs: one event a line through structlog, and gunicorn's requests without their secrets.

Every module asks `structlog.get_logger(__name__)`; lines of Django and Celery pass the same way.
"""

import logging
import re
from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from gunicorn.glogging import Logger  # type: ignore[import-untyped] # It has no types.

_LINK: Final = re.compile(
    r"(/+accounts/+(?:password|address|invitation)/+)[^\s?\"']+", re.IGNORECASE
)


def cut_links(value: object) -> object:
    """Return a text without the secrets that stand in addresses of mailed links."""
    return _LINK.sub(r"\1...", value) if isinstance(value, str) else value


def _without_links(
    logger: object,  # noqa: ARG001 - structlog's signature.
    name: str,  # noqa: ARG001 - As above.
    event: MutableMapping[str, Any],
) -> MutableMapping[str, Any]:
    """Cut links in every line: Django's own name the path of a request that it refuses."""
    for key, value in event.items():
        event[key] = cut_links(value)
    return event


class WithoutTraceback(logging.Filter):
    """Leaves a warning about a refused request without the traceback of the refusal."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Write every line; only an error keeps its traceback."""
        if record.levelno < logging.ERROR:
            record.exc_info = None
        return True


SHARED_PROCESSORS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]
PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    *SHARED_PROCESSORS,
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]
"""One list for the whole process: a logger keeps the one it first used."""


def logging_settings(*, level: str, form: str) -> dict[str, Any]:
    """Return Django's LOGGING and configure structlog to feed it.

    Args:
        level: The least severe level that is written.
        form: "json" for machines, "console" for people.
    """
    structlog.configure(
        processors=PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _without_links,
                    renderer,
                ],
                "foreign_pre_chain": SHARED_PROCESSORS,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": level},
        "filters": {"refused": {"()": WithoutTraceback}},
        # A failed request is an event of the caller, with its reason; the library's own lines
        # about each retry repeat it, with addresses.
        "loggers": {
            "urllib3": {"level": level if level == "DEBUG" else "ERROR"},
            "django.request": {"filters": ["refused"]},
        },
    }


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
