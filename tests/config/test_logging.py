"""Logs: whoever reads settings twice still has one way for every line."""

import structlog
from structlog.testing import capture_logs

from config.logging import logging_settings


def test_a_logger_that_was_used_before_settings_are_read_again_is_still_captured() -> None:
    logger = structlog.get_logger("tests.logging")
    logging_settings(level="INFO", form="json")
    logger.warning("before")
    logging_settings(level="INFO", form="console")

    with capture_logs() as lines:
        logger.warning("after", key="acme")

    assert [(line["event"], line["key"]) for line in lines] == [("after", "acme")]
