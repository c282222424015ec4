"""A tenant who is administrator of one namespace, and tries to reach beyond it."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import pytest

from lbcf.core.model.names import ANNOTATION_TRAFFIC_POLICY, API_GROUP, LABEL_DRAINING
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.errors import Forbidden, Invalid, NotFound
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.e2e.node_objects import SERVICES
from tests.e2e.stage import Stage
from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import KubectlError
from tests.manifests.accounts import RBAC
from tests.manifests.api import Api


pytestmark = pytest.mark.cluster

OURS = (
    objects.DRIVERS,
    objects.LOAD_BALANCERS,
    objects.GROUPS,
    objects.BINDS,
    objects.RECORDS,
)
VERBS = ("get", "create", "patch", "delete")
PEOPLE = RBAC / "users.yaml"
BACKENDS = RBAC / "backends.yaml"
SYSTEM = "kube-system"
ABANDON = {"metadata": {"annotations": {f"{API_GROUP}/abandon": "mine"}}}


@attrs.frozen
class Tenant:
    """Somebody with the role admin in the stage's namespace, and nowhere else.

    Attributes:
        stage: where the tenant is at home.
        login: the tenant's kubeconfig.
        client: asks in the tenant's name.
        neighbour: a namespace of somebody else's.
        api: the same, one request after the other.
    """

    stage: Stage
    login: Path
    client: KubeClient
    neighbour: str
    api: Api

    def can(self, verb: str, resource: str, namespace: str) -> bool:
        """What the API server answers the tenant, as `kubectl auth can-i` asks it."""
        asked = {"namespace": namespace, "verb": verb}
        asked |= {"group": API_GROUP, "resource": resource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(self.api.send("POST", path, review).body["status"]["allowed"])


@pytest.fixture(name="neighbour")
def _neighbour(bare: Stage) -> Iterator[str]:
    """A namespace of somebody else's."""
    with bare.cluster.namespace("neighbour") as name:
        yield name


@pytest.fixture(scope="module", name="roles")
def _roles(control_plane: Cluster) -> Path:
    """Our roles for people, added to those of the cluster; where they come from.

    With the policy on who may have addresses that are nobody's pod.
    """
    control_plane.kubectl("apply", "-f", BACKENDS)
    control_plane.kubectl("apply", "-f", PEOPLE)
    return PEOPLE


@pytest.fixture(name="tenant")
async def _tenant(
    bare: Stage, neighbour: str, roles: Path, policies: Path
) -> AsyncIterator[Tenant]:
    """The tenant, once the cluster's roles have taken ours in."""
    assert policies.name == "admission"
    cluster, user = bare.cluster, f"tenant-of-{bare.namespace}"
    assert roles.name == "users.yaml"
    words = ("--clusterrole=admin", f"--user={user}", "-n", bare.namespace)
    cluster.kubectl("create", "rolebinding", "tenant", *words)
    login = cluster.kubeconfig_for(user, ())
    connection = await connect(str(login))
    async with connected(connection, SystemClock(), user_agent="tenant") as client:
        with Api.connect(login, bare.namespace) as api:
            yield await _settled(Tenant(bare, login, client, neighbour, api))


async def _allow_static(tenant: Tenant) -> None:
    """Bind the role for static addresses to the tenant, and wait until it counts."""
    home = tenant.stage.namespace
    user = f"--user=tenant-of-{home}"
    words = ("rolebinding", "static", "--clusterrole=lbcf-static-backends", user)
    tenant.stage.cluster.kubectl("create", *words, "-n", home)

    async def counts() -> bool:
        return tenant.can("use-static", "backendgroups", home)

    await tenant.stage.until("the tenant may use static addresses", counts)


async def _settled(tenant: Tenant) -> Tenant:
    """Wait until the cluster's roles have taken ours in."""

    async def aggregated() -> bool:
        return tenant.can("create", "loadbalancerdrivers", tenant.stage.namespace)

    await tenant.stage.until("the role has our rights", aggregated)
    return tenant


async def test_rights_end_at_the_fence(tenant: Tenant) -> None:
    """At home all but records are the tenant's to write, elsewhere nothing to read."""
    everything = {(verb, kind.plural) for verb in VERBS for kind in OURS}
    home, away, system = (
        {(verb, kind) for verb, kind in everything if tenant.can(verb, kind, where)}
        for where in (tenant.stage.namespace, tenant.neighbour, SYSTEM)
    )
    records = {(verb, "backendrecords") for verb in VERBS if verb != "get"}

    assert everything - records == home
    assert set() == away
    assert set() == system


@pytest.mark.parametrize(
    ("verb", "kind", "at_home", "said"),
    [
        ("create", "loadbalancerdrivers", True, "yes"),
        ("delete", "backendrecords", True, "no"),
        ("get", "loadbalancers", False, "no"),
    ],
)
async def test_kubectl_says_the_same(
    tenant: Tenant, verb: str, kind: str, at_home: bool, said: str
) -> None:
    """`kubectl auth can-i`, with the tenant's own certificate."""
    where = tenant.stage.namespace if at_home else tenant.neighbour
    words = ("auth", "can-i", verb, f"{kind}.{API_GROUP}", "-n", where)
    try:
        answer = tenant.stage.cluster.kubectl(*words, kubeconfig=tenant.login)
    except KubectlError:
        answer = "no"

    assert said == answer.strip()


async def test_nothing_of_others_can_be_touched(tenant: Tenant) -> None:
    """Neither read nor changed nor let go, whether it exists or not."""
    for kind in OURS:
        for namespace in (tenant.neighbour, SYSTEM):
            theirs = ObjectKey(namespace, "theirs")
            with pytest.raises(Forbidden):
                await tenant.client.list(kind, Selection(namespace=namespace))
            with pytest.raises(Forbidden):
                await tenant.client.create(kind, namespace, {"metadata": {}})
            with pytest.raises(Forbidden):
                await tenant.client.patch(kind, theirs, ABANDON)
            with pytest.raises(Forbidden):
                await tenant.client.delete(kind, theirs)


async def test_own_records_are_the_controllers(tenant: Tenant) -> None:
    """Nobody can have a member registered, moved or left behind by writing records."""
    own = ObjectKey(tenant.stage.namespace, "mine")
    with pytest.raises(Forbidden):
        await tenant.client.create(objects.RECORDS, own.namespace, {"metadata": {}})
    with pytest.raises(Forbidden):
        await tenant.client.patch(objects.RECORDS, own, ABANDON)
    with pytest.raises(Forbidden):
        await tenant.client.delete(objects.RECORDS, own)
    for kind in OURS:
        with pytest.raises(Forbidden):
            await tenant.client.patch(kind, own, {"status": {}}, subresource="status")


async def test_names_that_serve_everybody_are_taken(tenant: Tenant) -> None:
    """A driver or load balancer under such a name would be taken for the shared one."""
    home = tenant.stage.namespace
    driver = objects.a_driver("http://127.0.0.1:1")
    driver["metadata"]["name"] = "lbcf-mine"
    with pytest.raises(Invalid, match="must not begin with lbcf-"):
        await tenant.client.create(objects.DRIVERS, home, driver)
    with pytest.raises(Invalid, match="must not begin with lbcf-"):
        await tenant.client.create(
            objects.LOAD_BALANCERS, home, objects.a_load_balancer("lbcf-mine")
        )


@contextlib.asynccontextmanager
async def shared(stage: Stage, *scope: str) -> AsyncIterator[ObjectKey]:
    """A load balancer of kube-system, with its driver, for these namespaces."""
    key = ObjectKey(SYSTEM, f"lbcf-{stage.namespace}")
    driver = objects.a_driver(stage.driver_url)
    driver["metadata"]["name"] = key.name
    body = objects.a_load_balancer(key.name, key.name)
    body["spec"]["scope"] = list(scope)
    await stage.client.create(objects.DRIVERS, SYSTEM, driver)
    try:
        await stage.client.create(objects.LOAD_BALANCERS, SYSTEM, body)
        yield key
    finally:
        let_go = {"metadata": {"finalizers": None, "labels": {LABEL_DRAINING: "true"}}}
        for kind in (objects.LOAD_BALANCERS, objects.DRIVERS):
            with contextlib.suppress(NotFound):
                await stage.client.patch(kind, key, let_go)
                await stage.client.delete(kind, key)
                await stage.client.patch(kind, key, let_go)


async def _doubt(stage: Stage) -> str:
    """Why the group is not ready."""
    group = await stage.get(objects.GROUPS, "web")
    assert group is not None
    reason: str = group.condition("Ready").get("reason", "")
    return reason


async def test_load_balancer_out_of_scope_is_not_used(tenant: Tenant) -> None:
    """Without the webhook as well: nothing is written and the driver is not called."""
    stage = tenant.stage
    await stage.start_driver()
    await stage.start("controller")
    await stage.start("deregistrar")
    async with shared(stage, tenant.neighbour) as key:
        await stage.add_pod("a", "10.0.0.1")
        await tenant.client.create(
            objects.GROUPS, stage.namespace, objects.a_group(lbs=(key.name,))
        )

        async def refused() -> bool:
            return await _doubt(stage) == "LoadBalancerOutOfScope"

        await stage.until("the group says that it is out of scope", refused)
        assert () == await stage.listed(objects.RECORDS)
        assert [] == await stage.calls("ensureBackend")

        wider = {"spec": {"scope": [tenant.neighbour, stage.namespace]}}
        await stage.client.patch(objects.LOAD_BALANCERS, key, wider)
        await stage.until_registered("10.0.0.1:80")
        await stage.delete(objects.GROUPS, "web")
        await stage.until_registered()


async def test_driver_of_everybody_serves_its_scope_alone(tenant: Tenant) -> None:
    """A copy of a shared load balancer's lbSpec gets no address of one's own in.

    What is in leaves when the scope is narrowed. That goes for a tenant who may register
    any address, as lbcf-static-backends allows.
    """
    stage = tenant.stage
    await _allow_static(tenant)
    await stage.start_driver()
    await stage.start("controller")
    await stage.start("deregistrar")
    async with shared(stage, stage.namespace) as key:
        closed: dict[str, object] = {"spec": {"scope": []}}
        await stage.client.patch(objects.DRIVERS, key, closed)
        copied = objects.a_load_balancer("mine", key.name)
        await tenant.client.create(objects.LOAD_BALANCERS, stage.namespace, copied)
        hijack = objects.a_group(lbs=("mine",))
        del hijack["spec"]["pods"]
        hijack["spec"]["static"] = ["6.6.6.6:80"]
        await tenant.client.create(objects.GROUPS, stage.namespace, hijack)

        async def told() -> bool:
            mine = await stage.get(objects.LOAD_BALANCERS, "mine")
            assert mine is not None
            found = mine.condition("Created").get("reason", "")
            return (found, await _doubt(stage)) == ("DriverOutOfScope",) * 2

        await stage.until("both say who has to allow it", told)
        assert () == await stage.listed(objects.RECORDS)
        assert [] == await stage.calls("ensureBackend")

        opened = {"spec": {"scope": [stage.namespace]}}
        await stage.client.patch(objects.DRIVERS, key, opened)
        await stage.until_registered("6.6.6.6:80")
        await stage.client.patch(objects.DRIVERS, key, closed)
        await stage.until_registered()
        await stage.delete(objects.GROUPS, "web")
        await stage.delete(objects.LOAD_BALANCERS, "mine")
        await stage.until_registered()


async def test_load_balancer_of_a_neighbour_is_not_found(tenant: Tenant) -> None:
    """A name means an object of one's own namespace; so does a driver's."""
    stage = tenant.stage
    await stage.start_driver()
    await stage.client.create(
        objects.DRIVERS, tenant.neighbour, objects.a_driver(stage.driver_url)
    )
    theirs = ObjectKey(tenant.neighbour, "front")
    await stage.client.create(
        objects.LOAD_BALANCERS, tenant.neighbour, objects.a_load_balancer()
    )
    await stage.start("controller")
    try:
        await stage.add_pod("a", "10.0.0.1")
        home = stage.namespace
        await tenant.client.create(objects.GROUPS, home, objects.a_group())

        async def unknown() -> bool:
            return await _doubt(stage) == "LoadBalancerNotFound"

        await stage.until("the group finds no such load balancer", unknown)
        mine = objects.a_load_balancer()
        await tenant.client.create(objects.LOAD_BALANCERS, home, mine)

        async def driverless() -> bool:
            return await _doubt(stage) == "DriverNotFound"

        await stage.until("the load balancer finds no such driver", driverless)
        assert () == await stage.listed(objects.RECORDS)
        assert [] == await stage.calls("ensureBackend")
    finally:
        await stage.processes["controller"].end()
        for kind, key in (
            (objects.LOAD_BALANCERS, theirs),
            (objects.DRIVERS, ObjectKey(tenant.neighbour, "memory")),
        ):
            await stage.client.patch(kind, key, {"metadata": {"finalizers": None}})


MANY = 150
"""More than the controller has requests under way at any time."""


async def test_local_services_of_one_keep_nobody_waiting(
    bare: Stage, neighbour: str
) -> None:
    """However many a tenant has, those of others are registered and deregistered."""
    await bare.start_driver()
    slots = asyncio.Semaphore(16)

    async def make(number: int) -> None:
        name = f"web-{number}"
        announced = {"name": name, "annotations": {ANNOTATION_TRAFFIC_POLICY: "Local"}}
        service = {"metadata": announced, "spec": {"ports": [{"port": 80}]}}
        meant = {"name": name, "port": {"port": 80}}
        spec = {"loadBalancers": ["front"], "service": meant}
        group = {"metadata": {"name": name}, "spec": spec}
        async with slots:
            await bare.client.create(SERVICES, neighbour, service)
            await bare.client.create(objects.GROUPS, neighbour, group)

    await asyncio.gather(*(make(number) for number in range(MANY)))
    await bare.start("controller")
    await bare.start("deregistrar")

    async def all_are_told() -> bool:
        page = await bare.client.list(objects.GROUPS, Selection(neighbour))
        told = [group for group in page.objects if group.condition("Ready")]
        return len(told) == MANY

    await bare.until("each group says that it is not ready", all_are_told)
    await bare.setting()
    await bare.add_pod("a", "10.0.0.1")
    await bare.until_registered("10.0.0.1:80")
    await bare.delete(objects.GROUPS, "web")
    await bare.until_registered()
