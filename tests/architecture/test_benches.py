"""What a bench judges: ratios and invariants, and in a smoke run the invariants alone."""

from pathlib import Path

import pytest

from bench import peers
from bench.__main__ import WITHOUT_SMOKE, bench_names
from bench.harness import SMOKE_VARIABLE, Bound, invariant, measurement, ratio, scaled


@pytest.fixture(params=[False, True], ids=["full", "smoke"])
def smoke(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv(SMOKE_VARIABLE, "true" if request.param else "false")
    return bool(request.param)


def test_benches_are_the_modules_that_define_a_run() -> None:
    names = bench_names()

    assert {"admission_http", "metering", "window"} <= set(names)
    assert not {"harness", "plain", "admission_servers", "bare", "__main__"} & set(names)
    assert set(WITHOUT_SMOKE) <= set(names)


def test_a_ratio_beyond_its_limit_falls_short_but_not_in_a_smoke_run(*, smoke: bool) -> None:
    at_most, at_least = ratio("a", "1.6", Bound.AT_MOST, "1.5"), ratio("b", 1, Bound.AT_LEAST, 2)

    assert (at_most.is_ok, at_least.is_ok) == (smoke, smoke)
    assert str(at_most) == f"a 1.6 x <=1.5 {'not judged' if smoke else 'short'}"


@pytest.mark.usefixtures("smoke")
def test_an_invariant_that_does_not_hold_falls_short_at_every_size() -> None:
    assert not invariant("a", 2, "pods", 1).is_ok
    assert invariant("a", 1, "pods", 1).is_ok
    assert not invariant("a", 41, "statements", 40, Bound.AT_MOST).is_ok


@pytest.mark.usefixtures("smoke")
def test_a_measurement_has_no_limit() -> None:
    assert measurement("a", 12, "s").is_ok
    assert str(measurement("a", 12, "s")) == "a 12 s"


def test_a_smoke_run_is_a_tenth_of_the_size(*, smoke: bool) -> None:
    assert scaled(720) == (72 if smoke else 720)
    assert scaled(2_000, least=500) == (500 if smoke else 2_000)


def test_a_peer_that_cannot_be_installed_is_left_out_and_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "prepare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "prepare").chmod(0o755)
    monkeypatch.setattr(peers, "ROOT", tmp_path)

    assert list(peers.run()) == []
    assert capsys.readouterr().out.startswith("peers is left out: ")
