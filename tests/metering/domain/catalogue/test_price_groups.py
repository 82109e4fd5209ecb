"""Price groups: what preemptible pods hold is distinguished, and nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import group_of, is_burst, like, without_burst

CLASSES = ["gpu-ledger-burst", "spot"]
SHARES = st.sampled_from(["H100/whole", "H100/1g.10gb", "A100/1of4", "H100/1g.10gb/1of2"])


def test_only_pods_of_a_preemptible_class_get_the_ending() -> None:
    groups = [
        group_of("H100/whole", priority_class=name, burst_classes=CLASSES)
        for name in ("spot", "gpu-standard", "")
    ]

    assert groups == ["H100/whole/burst", "H100/whole", "H100/whole"]


def test_what_has_no_size_gets_no_ending() -> None:
    assert group_of("", priority_class="spot", burst_classes=CLASSES) == ""


def test_a_suggestion_is_as_preemptible_as_what_it_replaces() -> None:
    assert like("H100/whole/burst", other="H100/1g.10gb") == "H100/1g.10gb/burst"
    assert like("H100/whole", other="H100/1g.10gb") == "H100/1g.10gb"


@given(share=SHARES, name=st.sampled_from([*CLASSES, "", "gpu-standard"]))
def test_the_device_share_is_never_lost(share: str, name: str) -> None:
    group = group_of(share, priority_class=name, burst_classes=CLASSES)

    assert without_burst(group) == share
    assert is_burst(group) == (name in CLASSES)
    assert group.partition("/")[0] == share.partition("/")[0]
