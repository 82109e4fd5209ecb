"""A limit or a request of a GPU model that nobody knows is refused: it would bind nothing."""

from typing import Any

import pytest
from django.test.utils import CaptureQueriesContext

from quotas.domain.errors import QuotaInputError
from quotas.models import QuotaLimit, QuotaRequest
from quotas.selectors.limits.limits import unknown_group_problems
from quotas.services.limits.limits import set_limit
from quotas.services.requests.asking import RequestDraft, make_request
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit


def set_project_limit(cast: Cast, model_group: str, **further: object) -> QuotaLimit:
    given: dict[str, Any] = {
        "scope": "project",
        "organization": cast.acme,
        "project": cast.llm,
        "size": "large",
        "model_group": model_group,
        "limit_units": 8,
        "actor": actor_of(cast.alice),
        "at": AT,
    }
    return set_limit(**{**given, **further})


def test_a_limit_of_an_unknown_model_is_refused_with_the_known_ones(cast: Cast) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        set_project_limit(cast, "H1OO")

    (problem,) = refusal.value.problems
    assert (problem.field, problem.code) == ("model_group", "model_group_unknown")
    assert problem.message == (
        'No GPU model is called H1OO. Use one of: A100, H100; or "" for every model. A model of '
        "which no node has come yet is known once a rule of the size catalogue names its product."
    )
    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize("model_group", ["", "H100", "A100", "H100-PCIe"])
def test_a_model_that_the_catalogue_names_needs_no_node(cast: Cast, model_group: str) -> None:
    assert set_project_limit(cast, model_group).model_group == model_group


def test_a_limit_that_is_there_may_be_changed_when_its_model_is_gone(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4, model_group="V100")

    assert set_project_limit(cast, "V100", limit_units=0).pk == limit.pk
    limit.refresh_from_db()
    assert limit.limit_units == 0


def test_a_request_for_an_unknown_model_is_refused(cast: Cast) -> None:
    draft = RequestDraft(
        project=cast.llm,
        size="large",
        model_group="H1OO",
        requested_units=8,
        justification="Training.",
    )

    with pytest.raises(QuotaInputError) as refusal:
        make_request(draft=draft, actor=actor_of(cast.bob), at=AT)

    assert [one.field for one in refusal.value.problems] == ["model_group"]
    assert not QuotaRequest.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("model_group", "count"), [("", 0), ("H100", 0), ("H1OO", 3)])
def test_what_the_catalogue_calls_by_a_short_name_is_not_looked_up(
    django_assert_num_queries: Any,  # noqa: ANN401 - The plugin's fixture.
    model_group: str,
    count: int,
) -> None:
    context: CaptureQueriesContext
    with django_assert_num_queries(count) as context:
        unknown_group_problems(model_group)

    assert len(context) == count
