"""The environment of a checkout, in which the outside world may be played."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from config.env import MAIL_URL, Environment


class CheckoutEnvironment(Environment):
    """The variables of a process in a checkout; settings of a deployment never read this one."""

    SIMULATED: ClassVar[Mapping[str, str]] = {
        "USAGE_SOURCE": "simulator.adapters.usage_source.SimulatedUsageSource",
        "CLUSTER_WATCH": "simulator.adapters.cluster_watch.SimulatedClusterWatch",
        "QUOTA_ENFORCER": "simulator.adapters.quota_enforcer.SimulatedQuotaEnforcer",
        "WORKLOAD_EVICTOR": "simulator.adapters.workload_evictor.SimulatedWorkloadEvictor",
        "NOTIFICATIONS": "simulator.adapters.notification_sender.SimulatedSender",
        "EXPORTS": "simulator.adapters.export_destination.SimulatedDestination",
    }

    EMAIL_URL: str = Field(default="", pattern=rf"{MAIL_URL}|^file:///[!-~]+$")
    """`file:///folder` writes each mail into a file, for people who try links."""
