"""All that is published of a version, in one folder.

    python -m manifests.release                       # into dist
    python -m manifests.release --registry ghcr.io/me --to dist
    python -m manifests.release --runbook-base https://git.example.com/lbcf/blob/main/

    install.yaml              everything but load balancers, for one `kubectl apply`
    example-haproxy.yaml      a HAProxy and a web app behind it
    monitoring.yaml           PodMonitor, alerts and dashboard, for the Prometheus operator
    lbcf-VERSION.tgz          the Helm chart
    lbcf-VERSION-....whl      the package, with `lbcf` and `kubectl-lbcf`
    images/                   container images, each with its bill of materials
    SHA256SUMS                of each file, for `sha256sum --check`

Made twice of one commit by one Python on one system, all files are the same, byte for byte.
"""
