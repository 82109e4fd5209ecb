"""The REST routes of metering under /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from metering.api.capacity import CapacityRecordViewSet
from metering.api.catalogue import CatalogueVersionViewSet
from metering.api.cluster_health import ClusterHealthViewSet
from metering.api.credit_proposals import CreditProposalViewSet
from metering.api.device_events import DeviceEventViewSet
from metering.api.device_sharing import DeviceSharingViewSet
from metering.api.device_usage import DeviceUsageViewSet, UnbilledDevicesViewSet
from metering.api.exceptions import MeteringExceptionViewSet
from metering.api.explanations import PodExplanationViewSet
from metering.api.incidents import IncidentViewSet
from metering.api.usage_corrections import UsageCorrectionViewSet
from metering.api.usage_records import UsageRecordViewSet
from metering.api.waste_findings import WasteFindingViewSet
from metering.api.windows import MeteringWindowViewSet

router = SimpleRouter(use_regex_path=False)
router.register("usage-records", UsageRecordViewSet, basename="usage-record")
router.register("usage-corrections", UsageCorrectionViewSet, basename="usage-correction")
router.register("metering-windows", MeteringWindowViewSet, basename="metering-window")
router.register("metering-exceptions", MeteringExceptionViewSet, basename="metering-exception")
router.register("incidents", IncidentViewSet, basename="incident")
router.register("capacity-records", CapacityRecordViewSet, basename="capacity-record")
router.register("device-usage", DeviceUsageViewSet, basename="device-usage")
router.register("catalogue-versions", CatalogueVersionViewSet, basename="catalogue-version")
router.register("device-events", DeviceEventViewSet, basename="device-event")
router.register("credit-proposals", CreditProposalViewSet, basename="credit-proposal")
router.register("cluster-health", ClusterHealthViewSet, basename="cluster-health")
router.register("waste-findings", WasteFindingViewSet, basename="waste-finding")

urlpatterns = [
    *router.urls,
    path("reports/device-sharing/", DeviceSharingViewSet.as_view({"get": "report"})),
    path("reports/device-sharing/csv/", DeviceSharingViewSet.as_view({"get": "csv"})),
    path("reports/unbilled-devices/", UnbilledDevicesViewSet.as_view({"get": "report"})),
    path("reports/unbilled-devices/csv/", UnbilledDevicesViewSet.as_view({"get": "csv"})),
    path("pod-explanations/", PodExplanationViewSet.as_view({"get": "ask"})),
]
