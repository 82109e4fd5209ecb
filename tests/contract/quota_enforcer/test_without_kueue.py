"""A real API server on which nobody has installed Kueue."""

import pytest

from quotas.adapters.kueue import KueueQuotaEnforcer
from quotas.protocols import DesiredQuota
from tenants.domain.errors import SourceUnavailableError
from tests.contract.quota_enforcer.benches import KubernetesBench
from tests.contract.quota_enforcer.conftest import KUBECONFIG, NO_KUEUE, real_wire
from tests.support.kubernetes.kueue import has_kueue

if KUBECONFIG:  # Anyone who names a cluster is shown it; without one there is nothing to leave out.

    def test_a_cluster_without_kueue_says_so() -> None:
        if has_kueue(real_wire()):
            pytest.skip(f"Left out: {NO_KUEUE}")
        bare = KubernetesBench(KUBECONFIG)
        desired = DesiredQuota(bare.make_namespace(), {"requests.nvidia.com/gpu": 8}, 1)
        try:
            with pytest.raises(SourceUnavailableError) as refusal:
                KueueQuotaEnforcer().apply(bare.endpoint, desired)
        finally:
            bare.close()

        assert refusal.value.reason == "kueue_missing"
