"""How the limits of an organization, its projects and their users fit together."""

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.hierarchy import LimitTree, find_violations

PROJECTS = st.sampled_from(["llm", "vision", "virus"])
USERS = st.sampled_from(["alice", "bob"])
UNITS = st.integers(min_value=0, max_value=12)
TREES = st.builds(
    LimitTree,
    size=st.sampled_from(GPUSize),
    organization_units=st.none() | UNITS,
    project_units=st.dictionaries(PROJECTS, UNITS),
    user_units=st.dictionaries(st.tuples(PROJECTS, USERS), UNITS),
)


def test_limits_that_fit_have_no_violation() -> None:
    tree = LimitTree(GPUSize.LARGE, 10, {"llm": 6, "vision": 4}, {("llm", "bob"): 6})

    assert find_violations(tree, blame="limit_units") == ()


def test_projects_that_add_up_to_more_than_the_organization_are_told_by_how_much() -> None:
    tree = LimitTree(GPUSize.LARGE, 10, {"llm": 8, "vision": 4})

    (violation,) = find_violations(tree, blame="limit_units")

    assert (violation.field, violation.code) == ("limit_units", "projects_exceed_organization")
    assert violation.message == (
        "The large limits of the projects would add up to 12, the organization's limit is 10: "
        "2 too many."
    )


def test_a_user_above_the_project_is_told() -> None:
    tree = LimitTree(GPUSize.SMALL, 10, {"llm": 2}, {("llm", "bob"): 3})

    (violation,) = find_violations(tree, blame="requested_units")

    assert (violation.field, violation.code) == ("requested_units", "user_exceeds_project")
    assert violation.message == (
        "User bob would have 3 small in project llm, the project's limit is 2."
    )


def test_where_the_project_has_no_limit_the_organization_binds_its_users() -> None:
    tree = LimitTree(GPUSize.SMALL, 2, {}, {("llm", "bob"): 3})

    (violation,) = find_violations(tree, blame="limit_units")

    assert violation.code == "user_exceeds_organization"
    assert violation.message.endswith("the organization's limit is 2.")


def test_every_violation_is_told_at_once_in_a_fixed_order() -> None:
    tree = LimitTree(
        GPUSize.MEDIUM,
        3,
        {"vision": 1, "llm": 4},
        {("vision", "bob"): 2, ("llm", "carol"): 9, ("llm", "alice"): 5, ("virus", "bob"): 4},
    )

    codes = [v.message.split()[1] for v in find_violations(tree, blame="x")]

    assert codes == ["medium", "alice", "carol", "bob", "bob"]


@given(tree=TREES)
def test_a_tree_without_violations_is_one_in_which_every_rule_holds(tree: LimitTree) -> None:
    top = tree.organization_units
    sums_hold = top is None or sum(tree.project_units.values()) <= top
    users_hold = all(
        (ceiling := tree.project_units.get(project, top)) is None or units <= ceiling
        for (project, _), units in tree.user_units.items()
    )

    assert (find_violations(tree, blame="x") == ()) is (sums_hold and users_hold)


@given(tree=TREES, project=PROJECTS)
def test_taking_a_limit_away_from_a_tree_that_holds_never_breaks_it(
    tree: LimitTree, project: str
) -> None:
    if find_violations(tree, blame="x"):
        return
    fewer = {slug: units for slug, units in tree.project_units.items() if slug != project}

    without_project = LimitTree(tree.size, tree.organization_units, fewer, tree.user_units)
    without_top = LimitTree(tree.size, None, tree.project_units, tree.user_units)

    assert find_violations(without_project, blame="x") == ()
    assert find_violations(without_top, blame="x") == ()
