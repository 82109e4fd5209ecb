"""Logs: one way for every line, and none about retries of a library."""

import logging
from collections.abc import Iterator
from io import StringIO
from logging.config import dictConfig

import pytest
import structlog
from structlog.testing import capture_logs

from config.monitoring.logging import logging_settings


def test_a_logger_that_was_used_before_settings_are_read_again_is_still_captured() -> None:
    logger = structlog.get_logger("tests.logging")
    logging_settings(level="INFO", form="json")
    logger.warning("before")
    logging_settings(level="INFO", form="console")

    with capture_logs() as lines:
        logger.warning("after", key="acme")

    assert [(line["event"], line["key"]) for line in lines] == [("after", "acme")]


@pytest.fixture
def library() -> Iterator[logging.Logger]:
    """Give urllib3's logger, and restore the levels afterwards."""
    loggers = (logging.getLogger(), logging.getLogger("urllib3"))
    levels = [logger.level for logger in loggers]
    handlers = list(loggers[0].handlers)
    yield logging.getLogger("urllib3.connectionpool")
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    loggers[0].handlers[:] = handlers


def test_retries_of_a_library_are_written_at_debug_alone(library: logging.Logger) -> None:
    dictConfig(logging_settings(level="INFO", form="json"))
    assert not library.isEnabledFor(logging.WARNING)

    dictConfig(logging_settings(level="DEBUG", form="json"))
    assert library.isEnabledFor(logging.WARNING)


@pytest.fixture
def lines() -> Iterator[StringIO]:
    """Return what is written with the settings of a service, and restore them afterwards."""
    root, requests = logging.getLogger(), logging.getLogger("django.request")
    kept = root.level, list(root.handlers), list(requests.filters)
    dictConfig(logging_settings(level="INFO", form="json"))
    written = StringIO()
    root.handlers[0].setStream(written)  # type: ignore[attr-defined]
    yield written
    root.setLevel(kept[0])
    root.handlers[:], requests.filters[:] = kept[1], kept[2]


def test_a_refused_request_is_one_warning_without_a_traceback(lines: StringIO) -> None:
    logger = logging.getLogger("django.request")
    try:
        int("refused")
    except ValueError:
        logger.warning("Forbidden: %s", "/admin/", exc_info=True)
        refused = lines.getvalue()
        logger.exception("Internal Server Error: %s", "/admin/")

    assert "Forbidden: /admin/" in refused
    assert "Traceback" not in refused
    assert "Traceback" in lines.getvalue()
