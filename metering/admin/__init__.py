"""The admin pages of metering: what was metered is only looked at; buttons call services."""

from metering.admin import catalogue, corrections, device_usage, exceptions, ledgers, waste, windows

__all__ = ["catalogue", "corrections", "device_usage", "exceptions", "ledgers", "waste", "windows"]
