"""A cluster's Kubernetes API as a source: a consistent list, then every change after it.

`watch` asks through a session that reads credentials anew each time (`session`) and takes bodies
only in bounded pieces (`lines`); `pods`, `nodes` and `claims` read raw JSON into what metering
knows (`fields`). The client library's own watch and informers are not used: they retry, reorder or
drop events that billing needs.
"""

from metering.adapters.kubernetes.watch import KubernetesClusterWatch

__all__ = ["KubernetesClusterWatch"]
