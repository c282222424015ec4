"""The demo: real nodes, a real HAProxy or Envoy and steady traffic, while everything breaks.

`python -m tests.lab.demo` starts a cluster, puts HAProxy (or Envoy, `--driver envoy`) in front of a small web app, lets
the controller, the deregistrar and the load balancer's driver run, keeps requests flowing, and
then rolls out, scales, deletes, drains and kills. It counts the requests that failed.

    options -> run: ground (cluster or kubeconfig) -> stack (manifests, children, haproxy)
                    load (own program)  -> report -> verdict -> screen, JSON
                    script, kills       -> journal -'
                    census (pods, records), proxy (members), audit (writes) -'
"""
