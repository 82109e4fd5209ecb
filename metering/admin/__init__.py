"""The admin pages of metering: what was metered is only looked at; buttons call services."""

from metering.admin import catalogue, corrections, exceptions, ledgers, waste, windows
from metering.admin import devices as device_usage

__all__ = ["catalogue", "corrections", "device_usage", "exceptions", "ledgers", "waste", "windows"]
