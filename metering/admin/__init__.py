"""The admin door of metering: what was metered is only looked at; buttons call services."""

from metering.admin import catalogue, exceptions, ledgers, waste, windows

__all__ = ["catalogue", "exceptions", "ledgers", "waste", "windows"]
