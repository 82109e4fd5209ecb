"""The REST routes of quotas under /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from quotas.api.admission import AdmissionRefusalViewSet, ReservationViewSet
from quotas.api.enforcement import EnforcementTargetViewSet
from quotas.api.headroom import HeadroomViewSet, QuotaForecastViewSet
from quotas.api.isolation import IsolationPolicyViewSet
from quotas.api.lending import LoanPolicyViewSet, QuotaLoanViewSet
from quotas.api.limits.grants import QuotaGrantViewSet
from quotas.api.limits.limits import QuotaLimitViewSet
from quotas.api.limits.suspensions import SuspensionViewSet
from quotas.api.limits.usage import QuotaUsageViewSet
from quotas.api.preemption.plans import PreemptionPlanViewSet
from quotas.api.preemption.policies import PreemptionPolicyViewSet, ProtectedWindowViewSet
from quotas.api.requests.policies import RequestPolicyViewSet
from quotas.api.requests.requests import QuotaRequestViewSet

router = SimpleRouter(use_regex_path=False)
router.register("quota-limits", QuotaLimitViewSet, basename="quota-limit")
router.register("quota-grants", QuotaGrantViewSet, basename="quota-grant")
router.register("suspensions", SuspensionViewSet, basename="suspension")
router.register("quota-requests", QuotaRequestViewSet, basename="quota-request")
router.register("request-policies", RequestPolicyViewSet, basename="request-policy")
router.register("quota-usage", QuotaUsageViewSet, basename="quota-usage")
router.register("quota-forecasts", QuotaForecastViewSet, basename="quota-forecast")
router.register("quota-loans", QuotaLoanViewSet, basename="quota-loan")
router.register("loan-policies", LoanPolicyViewSet, basename="loan-policy")
router.register("enforcement-targets", EnforcementTargetViewSet, basename="enforcement-target")
router.register("isolation-policies", IsolationPolicyViewSet, basename="isolation-policy")
router.register("preemption-plans", PreemptionPlanViewSet, basename="preemption-plan")
router.register("preemption-policies", PreemptionPolicyViewSet, basename="preemption-policy")
router.register("protected-windows", ProtectedWindowViewSet, basename="protected-window")
router.register("reservations", ReservationViewSet, basename="reservation")
router.register("admission-refusals", AdmissionRefusalViewSet, basename="admission-refusal")

urlpatterns = [
    *router.urls,
    path("headroom/", HeadroomViewSet.as_view({"get": "ask"})),
]
