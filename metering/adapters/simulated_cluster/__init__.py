"""The simulated cluster: one seed plays nodes and pods, their metrics and their Kubernetes API.

`scenario` holds the facts as frozen values, `demo_scenario` makes the standard one; `exposition`,
`openmetrics` and `exporter` show it as Prometheus would see it, `kubernetes_api` as a client
would. Demo, tests and bench use it; nothing in production does.
"""
