"""The form of a quota request: typed values, live headroom, and what the request would mean."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext
from rest_framework.serializers import Serializer

from metering.domain.catalogue.units import GPUSize
from quotas.access import READ_LIMIT, is_cost_visible
from quotas.adapters import cost_estimator
from quotas.api.headroom import HeadroomSerializer, visibility_of
from quotas.api.requests.requests import draft_of
from quotas.api.requests.serializers import (
    QuotaPreviewInputSerializer,
    QuotaRequestInputSerializer,
)
from quotas.domain.requests.labels import money_text, price_text
from quotas.models import QuotaRequest
from quotas.selectors.headroom.headroom import (
    StartQuestion,
    answer_start,
    clusters_of_project,
)
from quotas.services.requests.asking import RequestDraft, make_request, renew_request
from quotas.services.requests.preview import Preview, preview_request
from tenants.access import access_project
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, FieldProblem, InvalidInputError
from tenants.domain.identifiers import new_id
from tenants.services.idempotency import StoredResponse, answer_once
from tenants.templatetags.texts import figure

FIELDS: Final = (
    "project",
    "size",
    "requested_units",
    "burst_units",
    "user",
    "model_group",
    "cluster",
    "begin_at",
    "end_at",
    "justification",
)
"""As the API names them."""
RENEWS: Final = "renews"
KEPT: Final = ("project", "size", "burst_units", "user", "model_group", "cluster", "begin_at")
"""What a renewal takes from the request that it renews."""
NUMBERS: Final = ("requested_units", "burst_units")
KEY: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
DIGITS_MAX: Final = 12
"""Longer text is no number of units."""


@dataclass
class RequestForm:
    """What was typed, and what is shown beside it.

    Attributes:
        typed: Text by field.
        key: So that a form that is sent twice makes one request.
        renewed: The request that was approved until a time, which this one continues.
        errors: A sentence by field.
        refusal: Why nothing can be shown, or was made.
        headroom: What may start now, as the API answers it.
        preview: What the request would mean; None while it is not complete.
        cost: The price of the total, None where the person may not read it.
    """

    typed: Mapping[str, str]
    key: str
    renewed: QuotaRequest | None = None
    errors: dict[str, str] = field(default_factory=dict)
    refusal: DomainError | None = None
    headroom: Mapping[str, Any] | None = None
    preview: Preview | None = None
    cost: Mapping[str, str] | None = None

    @property
    def status(self) -> int:
        """The status of the page."""
        if self.refusal is not None:
            return self.refusal.status
        return InvalidInputError.status if self.errors else 200

    def refuse(self, error: DomainError) -> None:
        """Keep a refusal, with the problems of fields beside them."""
        self.refusal = error
        named = error.problems or (FieldProblem(error.field, error.code, error.message),)
        self.errors |= {one.field: one.message for one in named if one.field in FIELDS}


def read_form(data: QueryDict) -> RequestForm:
    """Return what was typed, or what a link fills in."""
    key = data.get("key", "")
    return RequestForm(
        typed={name: data.get(name, "").strip() for name in FIELDS},
        key=key if KEY.fullmatch(key) else str(new_id()),
    )


def renew(form: RequestForm, renewed: QuotaRequest, *, at: datetime) -> None:
    """Let a form continue a request that was approved until a time."""
    kept: dict[str, object] = {
        "project": renewed.project_id,
        "size": renewed.size,
        "user": renewed.user.username if renewed.user else "",
        "model_group": renewed.model_group,
        "cluster": renewed.cluster.slug if renewed.cluster else "",
    }
    if renewed.end_at is not None and renewed.end_at > at:
        kept["begin_at"] = renewed.end_at.isoformat()
    units = form.typed["requested_units"] or str(renewed.requested_units)
    form.typed = {
        **form.typed,
        "requested_units": units,
        **{name: str(kept.get(name, "")) for name in KEPT},
    }
    form.renewed = renewed


def show_headroom(form: RequestForm, *, actor: Actor, at: datetime) -> None:
    """Add what may start now of the chosen size in the chosen project; nothing without both."""
    if not form.typed["project"] or form.typed["size"] not in set(GPUSize):
        return
    try:
        project = access_project(actor, _id_of(form.typed["project"]), READ_LIMIT)
        question = StartQuestion(project=project, size=GPUSize(form.typed["size"]), units=1)
        answer = answer_start(
            question,
            clusters=clusters_of_project(question, at=at),
            at=at,
            burst_classes=settings.BURST_PRIORITY_CLASSES,
        )
    except DomainError as error:
        form.refuse(error)
        return
    context = {"question": question, "visibility": visibility_of(actor, question)}
    form.headroom = HeadroomSerializer(answer, context=context).data


def show_preview(form: RequestForm, *, actor: Actor, at: datetime) -> None:
    """Add what the request would mean: price, deciders and problems; nothing is made."""
    draft = _draft(form, QuotaPreviewInputSerializer, actor)
    if draft is None:
        return
    estimator = cost_estimator(settings.COST_ESTIMATOR)
    try:
        form.preview = preview_request(draft=draft, estimator=estimator, actor=actor, at=at)
    except DomainError as error:
        form.refuse(error)
        return
    project = draft.project
    if is_cost_visible(actor, organization_id=project.organization_id, project_id=project.pk):
        form.cost = cost_text(form.preview.cost)


def send_request(
    form: RequestForm, request: HttpRequest, *, actor: Actor, at: datetime
) -> UUID | None:
    """Make the request once and return its id; None where it is refused, which the form shows."""
    draft = _draft(form, QuotaRequestInputSerializer, actor)
    if draft is None:
        return None
    estimator = cost_estimator(settings.COST_ESTIMATOR)

    def make() -> StoredResponse:
        if form.renewed is None:
            made = make_request(draft=draft, estimator=estimator, actor=actor, at=at)
        else:
            made = renew_request(
                request=form.renewed,
                end_at=draft.end_at,
                justification=draft.justification,
                requested_units=draft.requested_units,
                estimator=estimator,
                actor=actor,
                at=at,
            )
        return StoredResponse(status=201, body={"id": str(made.pk)})

    renewed_id = str(form.renewed.pk) if form.renewed else ""
    text = json.dumps([request.path, form.typed, renewed_id], sort_keys=True)
    try:
        answer = answer_once(
            key=form.key,
            fingerprint=hashlib.sha256(text.encode()).digest(),
            respond=make,
            actor=actor,
            at=at,
        )
    except DomainError as error:
        form.refuse(error)
        return None
    return UUID(answer.body["id"])


def cost_text(cost: Mapping[str, Any]) -> dict[str, str]:
    """Return the price of a total in a month as displayed; "unknown" where it is not known."""
    currency = cost.get("currency", "")
    full, last = (
        gettext("unknown") if amount is None else figure(money_text(amount, currency))
        for amount in (cost.get("at_full_use"), cost.get("at_last_use"))
    )
    return {
        "full": full,
        "last": last,
        "price": price_text(cost.get("price_group", "")),
        "note": cost.get("note", ""),
    }


def _draft(
    form: RequestForm, serializer_of: type[Serializer[Any]], actor: Actor
) -> RequestDraft | None:
    """Return the request that was typed; None where it is refused, which the form shows."""
    given: dict[str, Any] = {name: text for name, text in form.typed.items() if text}
    for name in NUMBERS:
        text = given.get(name, "")
        if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX:
            given[name] = int(text)
    serializer = serializer_of(data=given)
    if not serializer.is_valid():
        form.errors |= {name: str(found[0]) for name, found in serializer.errors.items()}
        return None
    try:
        return draft_of(serializer.validated_data, actor=actor)
    except DomainError as error:
        form.refuse(error)
        return None


def _id_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInputError(
            gettext("The project is not known."),
            field="project",
            remedy=gettext("Choose one of the list."),
        ) from None
