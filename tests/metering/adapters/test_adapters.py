import pytest

from metering.adapters import usage_source
from metering.adapters.prometheus import PrometheusUsageSource

BACKEND = "metering.adapters.prometheus.PrometheusUsageSource"


def test_a_setting_names_the_source_and_its_options() -> None:
    source = usage_source({"BACKEND": BACKEND, "OPTIONS": {"resources": "amd_com_gpu"}})

    assert isinstance(source, PrometheusUsageSource)


def test_options_may_be_left_out() -> None:
    assert isinstance(usage_source({"BACKEND": BACKEND}), PrometheusUsageSource)


def test_an_unknown_source_stops_the_process() -> None:
    with pytest.raises(ImportError):
        usage_source({"BACKEND": "metering.adapters.nowhere.NoSource"})


def test_an_unknown_option_stops_the_process() -> None:
    with pytest.raises(TypeError):
        usage_source({"BACKEND": BACKEND, "OPTIONS": {"speed": "high"}})
