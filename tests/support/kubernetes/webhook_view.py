"""One of our own endpoints as the rule of a webhook server."""

import json

from django.db import connections
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import resolve

from tests.support.kubernetes.webhook_server import Body


class WebhookView:
    """One of our endpoints as a rule of a webhook server, and who was seen to ask."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.users: list[str] = []

    def __call__(self, request: Body) -> Body:
        self.users.append(request["userInfo"]["username"])
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request,
        }
        asked = RequestFactory().post(
            self.path, data=json.dumps(review).encode(), content_type="application/json"
        )
        match = resolve(self.path, urlconf="config.admission_urls")
        try:
            answer: HttpResponse = match.func(asked, *match.args, **match.kwargs)
            response: Body = json.loads(answer.content)["response"]
            return response
        finally:
            # This thread ends with the API server's connection.
            connections.close_all()
