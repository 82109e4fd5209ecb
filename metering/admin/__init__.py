"""The admin door of metering: what was metered is only looked at; buttons call services."""

from metering.admin import exceptions, ledgers, windows

__all__ = ["exceptions", "ledgers", "windows"]
