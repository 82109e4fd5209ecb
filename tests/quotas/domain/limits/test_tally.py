"""What is held, added up for every limit that could count it."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.tally import Taken, TallyKey, UnitsNow, UseByLimit

ACME, LLM, VISION, HOPPER, AMPERE = (UUID(int=number) for number in range(1, 6))
LARGE, SMALL = GPUSize.LARGE, GPUSize.SMALL
GROUPS = ("A100", "H100")
uses = st.lists(
    st.builds(
        UnitsNow,
        organization_id=st.just(ACME),
        project_id=st.sampled_from((LLM, VISION)),
        username=st.sampled_from(("", "carol", "bob")),
        size=st.sampled_from((LARGE, SMALL)),
        cluster_id=st.sampled_from((HOPPER, AMPERE)),
        units=st.integers(min_value=1, max_value=9),
        model_groups=st.sampled_from(((), ("A100",), ("H100",), GROUPS)),
        is_burst=st.booleans(),
        is_held=st.booleans(),
    ),
    max_size=12,
)


def counts(use: UnitsNow, key: TallyKey) -> bool:
    """Say again, the naive way, whether a limit counts a use."""
    return (
        use.organization_id == key.organization_id
        and key.project_id in {None, use.project_id}
        and key.username in {None, use.username}
        and use.size is key.size
        and (not key.model_group or not use.model_groups or key.model_group in use.model_groups)
        and key.cluster_id in {None, use.cluster_id}
    )


@given(
    held=uses,
    holder=st.sampled_from(((None, None), (LLM, None), (VISION, None), (LLM, "carol"))),
    size=st.sampled_from((LARGE, SMALL)),
    group=st.sampled_from(("", "A100", "H100")),
    cluster=st.sampled_from((None, HOPPER, AMPERE)),
)
def test_every_limit_counts_what_it_matches_and_nothing_else(
    held: list[UnitsNow],
    holder: tuple[UUID | None, str | None],
    size: GPUSize,
    group: str,
    cluster: UUID | None,
) -> None:
    key = TallyKey(ACME, *holder, size, group, cluster)
    matching = [use for use in held if counts(use, key)]
    assert matching == [use for use in held if key.counts(use)]

    taken = UseByLimit(held).taken(key)

    nominal = [use for use in matching if not use.is_burst]
    assert taken == Taken(
        held_units=sum(use.units for use in nominal if use.is_held),
        reserved_units=sum(use.units for use in nominal if not use.is_held),
        burst_units=sum(use.units for use in matching if use.is_burst),
    )


def test_holders_are_the_organization_the_project_and_anyone_who_is_known() -> None:
    nobody = UnitsNow(ACME, VISION, "", LARGE, HOPPER, 1)
    carol = UnitsNow(ACME, LLM, "carol", SMALL, HOPPER, 1, ("H100",))

    assert UseByLimit([nobody, carol]).holders() == {
        TallyKey(ACME, None, None, LARGE),
        TallyKey(ACME, VISION, None, LARGE),
        TallyKey(ACME, None, None, SMALL),
        TallyKey(ACME, LLM, None, SMALL),
        TallyKey(ACME, LLM, "carol", SMALL),
    }
    assert UseByLimit([]).holders() == set()
