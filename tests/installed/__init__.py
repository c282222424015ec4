"""Everything in the cluster, from images and manifests, as an operator installs it.

    python -m tests.installed

Three real nodes; the images of `images`, loaded into them; `manifests/overlays/default`
and `manifests/drivers/haproxy`, applied; HAProxy, a web app and its group. Then requests
flow through HAProxy while the web app is rolled, the leaders are killed, the node of one
of them is drained and our own Deployments are rolled. At the end all of it is taken away
in the documented order, and nothing may be left.
"""
