"""Sizes: the three units every quota, usage record and price is told in."""

from enum import StrEnum


class GPUSize(StrEnum):
    """Small, Medium and Large. Which device is which is the catalogue's to say."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class SharingMode(StrEnum):
    """How a device is divided among pods."""

    WHOLE = "whole"
    MIG = "mig"
    TIME_SLICING = "time-slicing"
    MPS = "mps"
