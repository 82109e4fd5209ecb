"""URLs of the admission webhooks; nothing else is served with them."""

from django.urls import path

from quotas.webhook.figures import metrics
from quotas.webhook.views import admit_pods, readyz, stamp_owners, warn_workloads

urlpatterns = [
    path("admit/<slug:slug>/pods", admit_pods),
    path("stamp/<slug:slug>", stamp_owners),
    path("warn/<slug:slug>", warn_workloads),
    path("readyz", readyz),
    path("metrics", metrics),
]
