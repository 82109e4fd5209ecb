"""What sweeps and repairs have done is read from the ledger's JSON."""

from uuid import uuid4

from quotas.domain.admission.live_use import (
    Bypass,
    LiveUseSweep,
    Repair,
    repairs_of,
    sweep_of,
    together,
)


def test_an_empty_answer_is_an_idle_sweep() -> None:
    assert sweep_of({}) == LiveUseSweep()
    assert sweep_of({}).touched == 0


def test_a_sweep_shows_what_it_touched_and_who_went_around() -> None:
    reported = {"cluster": "hopper", "namespace": "llm", "size": "large", "pods": 2, "units": 5}

    swept = sweep_of({"released": 1, "changed": 2, "found": 3, "bypasses": [reported]})

    assert swept == LiveUseSweep(1, 2, 3, (Bypass("hopper", "llm", "large", 2, 5),))
    assert swept.touched == 6


def test_turns_together_are_one_sweep() -> None:
    llm, vision = (Bypass("hopper", name, "large", 2, 5) for name in ("llm", "vision"))
    small = Bypass("hopper", "llm", "", 1, 3)

    swept = together(
        [
            LiveUseSweep(1, 2, 3, (vision, llm)),
            LiveUseSweep(turns_left=1),
            LiveUseSweep(turns_crashed=1),
            LiveUseSweep(4, 5, 6, (llm, small)),
            LiveUseSweep(turns_crashed=1),
        ]
    )

    assert swept == LiveUseSweep(
        5,
        7,
        9,
        (small, Bypass("hopper", "llm", "large", 4, 10), vision),
        turns_left=1,
        turns_crashed=2,
    )
    assert swept.touched == 21
    assert together([]) == LiveUseSweep()


def test_a_repair_names_the_limit_and_how_far_it_was_off() -> None:
    organization, limit = uuid4(), uuid4()
    reported = {"organization_id": str(organization), "limit_id": str(limit), "drift_units": 4}

    assert repairs_of([reported]) == (Repair(organization, limit, 4),)
    assert repairs_of([]) == ()
