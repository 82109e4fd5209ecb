"""DCGM's metrics as dcgm-exporter 4.5.3-4.8.3 prints them: labels, and a value from a reading.

Source: NVIDIA/dcgm-exporter, internal/pkg/rendermetrics and etc/default-counters.csv.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from simulator.cluster.exporters.device_series import (
    DeviceTimeline,
    PowerTimeline,
    Segment,
)
from simulator.cluster.exporters.prometheus_text import Family, Labels, permille
from simulator.cluster.scenario import Pod

DRIVER_VERSION: Final = "580.95.05"
_MEMORY_MIB: Final = {"": 80_940, "1g.10gb": 9_728, "2g.20gb": 19_968, "3g.40gb": 40_320}
_IDLE_MEMORY_MIB: Final = 4


@dataclass(frozen=True)
class Reading:
    """What one device shows at one moment.

    Attributes:
        busy: Thousandths.
        milliwatts: Of the physical GPU, on an instance too.
        millijoules: Of the physical GPU since its driver was loaded.
    """

    busy: int
    memory_used_mib: int
    memory_free_mib: int
    milliwatts: int
    millijoules: int


@dataclass(frozen=True)
class DeviceMetric:
    """One metric: its family, its value, and whether MIG instances have it."""

    family: Family
    value: Callable[[Reading], str]
    is_on_instances: bool = True
    extra: Labels = ()


def read_device(timeline: DeviceTimeline, power: PowerTimeline, second: int) -> Reading:
    """Return what a device shows at a second since the epoch."""
    held = len(timeline.at(second).pods)
    total = _MEMORY_MIB[timeline.profile]
    used = min(total, total * (held + 2) // 7) if held else _IDLE_MEMORY_MIB
    return Reading(
        busy=timeline.busy(second),
        memory_used_mib=used,
        memory_free_mib=total - used,
        milliwatts=power.milliwatts(second),
        millijoules=power.millijoules(second),
    )


def device_labels(timeline: DeviceTimeline, segment: Segment, extra: Labels = ()) -> Labels:
    """Return a device's labels as the exporter prints them: no pod labels where it names none."""
    gpu = timeline.gpu
    instance = (
        (("GPU_I_PROFILE", timeline.profile), ("GPU_I_ID", timeline.instance_id))
        if timeline.instance_id
        else ()
    )
    pod = segment.named_pod
    attributes = sorted((*extra, *(_pod_attributes(pod) if pod else ())))
    return (
        ("gpu", str(gpu.index)),
        ("UUID", gpu.uuid),
        ("pci_bus_id", gpu.pci_bus_id),
        ("device", f"nvidia{gpu.index}"),
        ("modelName", gpu.model),
        *instance,
        ("hostname", timeline.node.name),
        ("DCGM_FI_DRIVER_VERSION", DRIVER_VERSION),
        *attributes,
    )


def _pod_attributes(pod: Pod) -> Labels:
    container = next(one.name for one in pod.containers if pod.resource in one.requests)
    return (("container", container), ("namespace", pod.namespace), ("pod", pod.name))


def _gauge(
    name: str, text: str, value: Callable[[Reading], str], *, is_on_instances: bool = True
) -> DeviceMetric:
    return DeviceMetric(Family(name, text), value, is_on_instances)


def _counter(name: str, text: str, value: Callable[[Reading], str]) -> DeviceMetric:
    return DeviceMetric(Family(name, text, "counter"), value, is_on_instances=False)


BUSY: Final = _gauge(
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "Ratio of time the graphics engine is active.",
    lambda reading: permille(reading.busy),
)
ENERGY: Final = DeviceMetric(
    Family(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since boot (in mJ).",
        "counter",
    ),
    lambda reading: str(reading.millijoules),
)
REMAP_FAILURE: Final = _gauge(
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "Whether remapping of rows has failed",
    lambda _: "0",
    is_on_instances=False,
)
"""A live exporter has only healthy devices: those that failed did so in the history."""
DEVICE_METRICS: Final = (
    _gauge(
        "DCGM_FI_DEV_SM_CLOCK",
        "SM clock frequency (in MHz).",
        lambda reading: str(345 + 1635 * reading.busy // 1000),
    ),
    _gauge(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "Memory temperature (in C).",
        lambda reading: str(35 + reading.milliwatts // 18_000),
        is_on_instances=False,
    ),
    _gauge(
        "DCGM_FI_DEV_GPU_TEMP",
        "GPU temperature (in C).",
        lambda reading: str(28 + reading.milliwatts // 20_000),
    ),
    _gauge(
        "DCGM_FI_DEV_POWER_USAGE",
        "Power draw (in W).",
        lambda reading: permille(reading.milliwatts),
    ),
    ENERGY,
    _gauge(
        "DCGM_FI_DEV_GPU_UTIL",
        "GPU utilization (in %).",
        lambda reading: str(reading.busy // 10),
        is_on_instances=False,
    ),
    DeviceMetric(
        Family("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
        lambda _: "0",
        extra=(("err_code", "0"), ("err_msg", "No Error")),
    ),
    _gauge(
        "DCGM_FI_DEV_FB_FREE",
        "Framebuffer memory free (in MiB).",
        lambda reading: str(reading.memory_free_mib),
    ),
    _gauge(
        "DCGM_FI_DEV_FB_USED",
        "Framebuffer memory used (in MiB).",
        lambda reading: str(reading.memory_used_mib),
    ),
    _gauge(
        "DCGM_FI_DEV_FB_RESERVED",
        "Framebuffer memory reserved (in MiB).",
        lambda _: "619",
        is_on_instances=False,
    ),
    _counter(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
        lambda _: "0",
    ),
    _counter(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for correctable errors",
        lambda _: "0",
    ),
    REMAP_FAILURE,
    BUSY,
    _gauge(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda reading: permille(reading.busy // 3),
    ),
    _gauge(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        lambda reading: permille(reading.busy // 4),
    ),
)
"""In the order of the exporter's default CSV, as far as simulated."""
