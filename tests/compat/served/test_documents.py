"""YAML as LBCF's documents write it: applied by kubectl, and it works."""

import pytest

from tests.compat.scene import Scene
from tests.e2e import objects
from tests.lab.cluster import Cluster


pytestmark = pytest.mark.cluster

DRIVER = """
apiVersion: lbcf.tkestack.io/v1beta1
kind: LoadBalancerDriver
metadata:
  name: sample
spec:
  driverType: Webhook
  url: "{url}"
  acceptDryRunCall: false
  webhooks:
    - name: validateLoadBalancer
      timeout: 15s
    - name: ensureBackend
      timeout: 1m
"""
BALANCERS = """
apiVersion: lbcf.tkestack.io/v1beta1
kind: LoadBalancer
metadata:
  name: existing
spec:
  lbDriver: sample
  lbSpec:
    loadBalancerID: "lb-7wf394rv"
    listenerPort: "9999"
  attributes:
    listenerCertID: "18fe2kaf"
  ensurePolicy:
    policy: Always
    minPeriod: 1m
---
apiVersion: lbcf.tkestack.io/v1beta1
kind: LoadBalancer
metadata:
  name: made
spec:
  lbDriver: sample
  lbSpec:
    vpcID: "vpc-b5hcoxj4"
    loadBalancerType: "OPEN"
"""
GROUPS = """
apiVersion: lbcf.tkestack.io/v1beta1
kind: BackendGroup
metadata:
  name: by-label
  labels:
    lbcf.tkestack.io/lb-name: existing
spec:
  lbName: existing
  pods:
    port:
      portNumber: 80
    byLabel:
      selector:
        app: web
      except:
        - web-2
  parameters:
    weight: "18"
---
apiVersion: lbcf.tkestack.io/v1beta1
kind: BackendGroup
metadata:
  name: by-name
spec:
  lbName: made
  pods:
    port:
      portNumber: 53
      protocol: UDP
    byName:
      - web-2
---
apiVersion: lbcf.tkestack.io/v1beta1
kind: BackendGroup
metadata:
  name: several
spec:
  loadBalancers:
    - existing
    - made
  pods:
    ports:
      - port: 8080
      - port: 8443
        protocol: TCP
    byLabel:
      selector:
        app: web
  deregisterPolicy: Webhook
  deregisterWebhook:
    driverName: sample
    failurePolicy: IfNotReady
  ensurePolicy:
    policy: IfNotSucc
---
apiVersion: lbcf.tkestack.io/v1beta1
kind: BackendGroup
metadata:
  name: literal
spec:
  lbName: made
  static:
    - "198.51.100.7:80"
"""


async def test_yaml_of_the_documents_works(
    served: Scene, control_plane: Cluster
) -> None:
    """Strictly applied: an unknown field would be refused."""
    stage, driver = served.stage, served.driver
    for text in (DRIVER.format(url=driver.url), BALANCERS, GROUPS):
        control_plane.kubectl(
            *("apply", "-n", stage.namespace, "--validate=strict", "-f", "-"),
            stdin=text,
        )
    await stage.add_pod("web-1", "10.2.0.1")
    await stage.add_pod("web-2", "10.2.0.2")

    existing = "listenerPort=9999,loadBalancerID=lb-7wf394rv"
    made = "loadBalancerType=OPEN,vpcID=vpc-b5hcoxj4"
    several = {f"10.2.0.{n}:{port}" for n in (1, 2) for port in (8080, 8443)}
    wanted = {
        (balancer, address) for balancer in (existing, made) for address in several
    }
    wanted |= {(existing, "10.2.0.1:80"), (made, "10.2.0.2:53")}
    wanted |= {(made, "198.51.100.7:80")}

    async def there() -> bool:
        return wanted == set(driver.members)

    await served.until("every backend is in", there)
    assert {"weight": "18"} == driver.members[existing, "10.2.0.1:80"]
    assert {existing: {"listenerCertID": "18fe2kaf"}, made: {}} == driver.balancers
    [udp] = [
        call.body["podBackend"]["port"]
        for call in driver.of("generateBackendAddr")
        if call.body["podBackend"]["port"]["port"] == 53
    ]
    assert {"port": 53, "portNumber": 53, "protocol": "UDP"} == udp

    control_plane.kubectl(
        *("delete", "-n", stage.namespace, "--wait=false", "-f", "-"), stdin=GROUPS
    )

    async def empty_again() -> bool:
        return not driver.members and not await stage.listed(objects.RECORDS)

    await served.until("every backend is out", empty_again)
