"""Resource names: which are devices, and the sizes that rules can give before one is known.

Devices that no rule can size are known by name too, so that what holds them is an exception and
never unnoticed.
Source: the device plugins of the vendors, and KubeVirt's names for NVIDIA's vGPUs and whole cards.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from metering.domain.catalogue.sizing import Rule
from metering.domain.catalogue.units import GPUSize, sanitise

OTHER_DEVICES: Final = (
    "aliyun.com/gpu",
    "amd.com/cpx_",
    "amd.com/dpx_",
    "amd.com/gpu",
    "amd.com/qpx_",
    "amd.com/spx_",
    "aws.amazon.com/neuron",
    "cambricon.com/",
    "cloud-tpus.google.com/",
    "furiosa.ai/",
    "google.com/tpu",
    "gpu.intel.com/",
    "habana.ai/gaudi",
    "huawei.com/Ascend",
    "nvidia.com/AD1",
    "nvidia.com/GA1",
    "nvidia.com/GB1",
    "nvidia.com/GB2",
    "nvidia.com/GH1",
    "nvidia.com/GP1",
    "nvidia.com/GRID_",
    "nvidia.com/GV1",
    "nvidia.com/TU1",
    "nvidia.com/pgpu",
    "nvidia.com/vgpu",
    "qualcomm.com/qaic",
    "tenstorrent.com/",
)
"""Beginnings of the names of accelerators beside NVIDIA's device plugin."""
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Before the device class in a name that means its devices. A name that a DeviceClass gives
to its devices is kept as this one (KEP-5004)."""
DEVICE_NAMES: Final = "|".join(
    (
        r"nvidia\.com/(gpu|mig-).*",
        f"({'|'.join(re.escape(name) for name in (CLASS_PREFIX, *OTHER_DEVICES))}).*",
    )
)
"""Pattern of the names of all accelerators, as Kubernetes spells them."""
SANITISED_NAMES: Final = (
    f"nvidia_com_(gpu|mig_).*|({'|'.join(sanitise(name) for name in OTHER_DEVICES)}).*"
)
"""The same as kube-state-metrics spells them."""


CLASS_RULES: Final = (
    Rule(GPUSize.SMALL, ("claim/mig.nvidia.com",), products=("*-MIG-1g.*",)),
    Rule(
        GPUSize.MEDIUM,
        ("claim/mig.nvidia.com",),
        products=("*-MIG-2g.*", "*-MIG-3g.*", "*-MIG-4g.*"),
    ),
    Rule(GPUSize.LARGE, ("claim/gpu.nvidia.com", "claim/mig.nvidia.com")),
)
"""The device classes of NVIDIA's DRA driver, for every catalogue that does not name them."""


def possible_sizes(resource: str, *, rules: Iterable[Rule]) -> frozenset[GPUSize]:
    """Return every size the rules can give to a name, up to the first that asks nothing more."""
    listed = tuple(rules)
    sizes: set[GPUSize] = set()
    for rule in listed if is_named(resource, rules=listed) else CLASS_RULES:
        if not _names(rule, resource):
            continue
        if rule.size is not None:
            sizes.add(rule.size)
        if _is_unconditional(rule):
            break
    return frozenset(sizes)


def is_named(resource: str, *, rules: Iterable[Rule]) -> bool:
    """Whether any rule is about a name, be it to refuse it."""
    return any(_names(rule, resource) for rule in rules)


def _names(rule: Rule, resource: str) -> bool:
    return any(fnmatchcase(resource, pattern) for pattern in rule.resources)


def _is_unconditional(rule: Rule) -> bool:
    return not (rule.products or rule.mig_strategy or rule.sharing or rule.replicas_min > 1)


def unsized_name_sentence(resource: str) -> str:
    """Return what an administrator reads about an offered name that no rule names."""
    rule = f'{{"size": "large", "resources": ["{resource}"]}}'
    return (
        f"No rule of the size catalogue names {resource}: its quota is 0, and admission refuses "
        "it; a device class named after GPUs counts as Large. Add a catalogue version with a rule "
        f"for it, such as {rule}."
    )
