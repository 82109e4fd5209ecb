"""A fake Kubernetes API server over HTTPS, as far as an official client of ours can see.

Namespaces, nodes, pods and ResourceQuotas with their accounting; list, watch, server-side apply
and errors as the real server has them. What it does not know, it refuses with 404 or 405. Without
`runs_pods` there is no kubelet and no scheduler: a test binds and ends pods itself.
"""

from simulator.kubernetes_api.access import write_kubeconfig
from simulator.kubernetes_api.server import KubernetesAPI

__all__ = ["KubernetesAPI", "write_kubeconfig"]
