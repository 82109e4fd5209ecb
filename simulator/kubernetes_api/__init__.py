"""Enough of the Kubernetes API, over HTTPS, that an official client cannot tell.

Namespaces, nodes, pods and ResourceQuotas with their accounting; list, watch, server-side apply
and errors as the real server has them. What it does not know, it refuses with 404 or 405. There
is no kubelet and no scheduler: pods are bound and ended by whoever tests, as on a bare API server.
"""

from simulator.kubernetes_api.kubeconfig import write_kubeconfig
from simulator.kubernetes_api.server import KubernetesAPI

__all__ = ["KubernetesAPI", "write_kubeconfig"]
