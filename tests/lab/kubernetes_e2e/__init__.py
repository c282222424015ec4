"""Kubernetes' own end-to-end tests for Services of type LoadBalancer, against lbcf and Envoy.

    python -m tests.lab.kubernetes_e2e

Three real nodes, `manifests/overlays/default` and `manifests/drivers/envoy` installed in
them, and a LoadBalancerClass for Services without one. The tests are those of the module
k8s.io/kubernetes (test/e2e/network), built once, as is agnhost, the image of their pods.
At the end everything is uninstalled, and nothing may be left.
"""
