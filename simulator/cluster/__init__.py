"""The simulated cluster: one seed plays nodes and pods.

`scenario` holds the facts as frozen values, `demo_scenario` makes the standard one; `exporters`
show it as Prometheus would see it, `simulator.kubernetes_api` as a client would.
"""
