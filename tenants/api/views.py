"""Base classes of all views: the actor, the time of the request, and the response."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from django.db.models import Model, QuerySet
from django.utils import timezone
from django.utils.functional import cached_property
from rest_framework import status
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from tenants.api.actors import actor_of_request
from tenants.api.conditional import etag_of, expected_version
from tenants.api.expansion import PARAMETER, add_names, expandable, wanted_names
from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import DomainError
from tenants.services.audit import is_noted, note_refusal
from tenants.services.changing import noun_of

READS: Final = ("list", "retrieve")
"""Actions whose answers may be expanded."""


class LedgerViewSet(GenericViewSet[Any]):
    """A view set: input serializer -> access_* -> service -> output serializer.

    Subclasses set `serializer_class` (output), `ordering`, `filterset_class`, and give
    `get_queryset()` from an `*_visible_to(self.actor)`. Paths carry `<uuid:pk>`; a list whose keys
    are not UUIDs sets `lookup_value_converter`.
    """

    lookup_value_converter = "uuid"
    ordering: str | tuple[str, ...] = "-pk"
    orderings: tuple[str, ...] = ()
    """Further columns that `ordering` may name, beside the first of the list's own order."""
    expanded: tuple[str, ...] = ()
    """What the request wants expanded."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - DRF's signature.
        """Authenticate, authorize, and read what is to be expanded.

        Raises:
            InvalidInputError: The answer has no such ids.
        """
        super().initial(request, *args, **kwargs)
        if request.method == "GET" and PARAMETER in request.query_params:
            self.expanded = wanted_names(request, self.expandable())

    def expandable(self) -> tuple[str, ...]:
        """Return which ids of the answer `expand` may name."""
        is_read = self.action in READS and self.serializer_class is not None
        return expandable(self.get_serializer()) if is_read else ()

    def finalize_response(
        self,
        request: Request,
        response: Response,
        *args: Any,  # noqa: ANN401 - DRF's signature.
        **kwargs: Any,  # noqa: ANN401 - As above.
    ) -> Response:
        """Add the names that the request wants to what is answered."""
        if self.expanded and response.status_code == status.HTTP_200_OK:
            add_names(response.data, self.expanded, actor=self.actor)
        return super().finalize_response(request, response, *args, **kwargs)

    @cached_property
    def actor(self) -> Actor:
        """Return the caller; the service itself while the API description is written."""
        if getattr(self, "swagger_fake_view", False):
            return system_actor("openapi")
        return actor_of_request(self.request)

    @cached_property
    def at(self) -> datetime:
        """Return the time of the request, read once."""
        return timezone.now()

    def handle_exception(self, exc: Exception) -> Response:
        """Answer an error; some refusals leave an audit entry, since all else is undone."""
        model = getattr(getattr(self.serializer_class, "Meta", None), "model", None)
        if isinstance(exc, DomainError) and is_noted(exc) and model is not None:
            note_refusal(
                refusal=exc,
                noun=noun_of(model),
                object_id=self.kwargs.get("pk", ""),
                actor=self.actor,
                at=self.at,
            )
        return super().handle_exception(exc)

    def read(self, serializer_class: type[BaseSerializer[Any]], request: Request) -> dict[str, Any]:
        """Return the validated body.

        Raises:
            rest_framework.exceptions.ValidationError: With every problem.
        """
        serializer = serializer_class(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def read_changes(
        self, serializer_class: type[BaseSerializer[Any]], request: Request
    ) -> dict[str, Any]:
        """Return the validated fields of a PATCH: those that were sent.

        Raises:
            rest_framework.exceptions.ValidationError: With every problem.
        """
        serializer = serializer_class(
            data=request.data, partial=True, context=self.get_serializer_context()
        )
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def answer(self, row: Model, *, status_code: int = status.HTTP_200_OK) -> Response:
        """Return a row through the output serializer, with its ETag when it has a version."""
        version = getattr(row, "version", None)
        headers = {} if version is None else {"ETag": etag_of(version)}
        body = self.get_serializer(row).data
        if status_code == status.HTTP_201_CREATED:
            headers["Location"] = f"{self.request.path}{row.pk}/"
        return Response(body, status=status_code, headers=headers)

    def change(
        self,
        request: Request,
        service: Callable[..., Model],
        **arguments: Any,  # noqa: ANN401 - What the service takes.
    ) -> Response:
        """Call a service with the version that If-Match names, and return the changed row.

        Raises:
            PreconditionRequiredError: If-Match is missing or names no version.
        """
        version = expected_version(request)
        changed = service(**arguments, expected_version=version, actor=self.actor, at=self.at)
        return self.answer(changed)


class ReadingViewSet(ListModelMixin, LedgerViewSet):
    """A view set that lists what the caller may read, and returns one of it by `get_one`."""

    def get_one(self, pk: Any) -> Model:  # noqa: ANN401 - The type of the key.
        """Return one object through its `access_*`."""
        raise NotImplementedError

    def retrieve(self, request: Request, pk: Any) -> Response:  # noqa: ANN401, ARG002 - As above.
        """Return one object with its ETag."""
        return self.answer(self.get_one(pk))

    def get_queryset(self) -> QuerySet[Any]:
        """Return what the caller sees."""
        raise NotImplementedError
