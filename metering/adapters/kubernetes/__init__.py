"""A cluster's Kubernetes API as a source: a consistent list, then every change after it.

`watch` sends requests through a session that rereads credentials each time (`session`) and reads
bodies only in bounded pieces (`lines`); `pods`, `nodes` and `claims` parse raw JSON (`fields`). The
client library's own watch and informers are not used: they retry, reorder or drop events that
billing needs.
"""

from metering.adapters.kubernetes.watch import KubernetesClusterWatch

__all__ = ["KubernetesClusterWatch"]
