"""/api/v1/sessions/: one's own signed-in browsers, and ending them."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.urls import URLPattern, path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.api.actors import TokenProof
from tenants.api.serializers import EmptySerializer
from tenants.api.views import LedgerViewSet
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.selectors.people import SessionFact, sessions_of
from tenants.services.identity.sessions import PUBLIC_ID, end_other_sessions, end_session


class SessionSerializer(serializers.Serializer[SessionFact]):
    """One session of the caller."""

    id = serializers.UUIDField()
    started_at = serializers.DateTimeField(source="began_at")
    last_used_at = serializers.DateTimeField(help_text="Within a minute.")
    ends_at = serializers.DateTimeField(help_text="When it ends if it is not used any more.")
    browser = serializers.CharField()
    is_current = serializers.BooleanField()


class SessionListSerializer(serializers.Serializer[Any]):
    """All sessions of the caller; there is no second page."""

    results = SessionSerializer(many=True)


class EndedSerializer(serializers.Serializer[Any]):
    """What came of ending all others."""

    ended = serializers.IntegerField()


class SessionViewSet(LedgerViewSet):
    """The caller's own sessions; a token limited to scopes, or a service account, has none."""

    serializer_class = SessionSerializer
    queryset = None

    @extend_schema(operation_id="list_sessions", responses=SessionListSerializer)
    def mine(self, request: Request) -> Response:
        """Return the caller's sessions, the newest first."""
        person = self._person(request)
        current = self._current(request)
        found = () if person is None else sessions_of(person, current=current, at=self.at)
        return Response(SessionListSerializer({"results": found}).data)

    @extend_schema(
        operation_id="end_session",
        request=EmptySerializer,
        responses={status.HTTP_204_NO_CONTENT: None},
    )
    def end(self, request: Request, pk: UUID) -> Response:
        """End one session; its browser has to sign in again."""
        person = self._person(request)
        if person is None:
            raise NotFoundError("There is no such session.", remedy="It may have ended by itself.")
        self.read(EmptySerializer, request)
        end_session(user=person, session_id=pk, actor=self.actor, at=self.at)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        operation_id="end_other_sessions", request=EmptySerializer, responses=EndedSerializer
    )
    def end_others(self, request: Request) -> Response:
        """End every session but the one that asks; all of them when a token asks."""
        person = self._person(request)
        if person is None:
            raise ForbiddenError(
                "These credentials end no session.",
                remedy="Sign in, or use a token of a person without scopes.",
            )
        self.read(EmptySerializer, request)
        ended = end_other_sessions(
            user=person, keep=self._current(request), actor=self.actor, at=self.at
        )
        return Response({"ended": ended})

    def _person(self, request: Request) -> User | None:
        if self.actor.scopes is not None or not isinstance(request.user, User):
            return None
        return request.user

    def _current(self, request: Request) -> UUID | None:
        """Return the session that asks; a token does not ask in the name of a cookie beside it."""
        if isinstance(request.auth, TokenProof):
            return None
        public_id = request.session.get(PUBLIC_ID)
        return None if public_id is None else UUID(public_id)


session_urls: list[URLPattern] = [
    path("sessions/", SessionViewSet.as_view({"get": "mine"}), name="session-list"),
    path("sessions/<uuid:pk>/end/", SessionViewSet.as_view({"post": "end"}), name="session-end"),
    path(
        "sessions/end-others/",
        SessionViewSet.as_view({"post": "end_others"}),
        name="session-end-others",
    ),
]
