"""Everything in the cluster, from images and manifests, as an operator installs it.

    python -m tests.lab.installed

Three real nodes; the images of `images`, loaded into them; `manifests/overlays/default`
and `manifests/drivers/haproxy`, applied; HAProxy, a web app and its group. Then requests
flow through HAProxy while `acts` happen: rollouts, leaders killed, drained away and without
power, an upgrade. `witness` writes down what goes on, `verdict` says which failures nothing
excuses. At the end `kubectl lbcf uninstall` takes all of it away, and nothing may be left.
"""
