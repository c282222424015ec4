"""Secrets that drivers name: followed one by one, and told apart from those that lack."""

import asyncio

from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import msgspec
import pytest

from lbcf.core.model.access import Lack, NoSecret, Secret
from lbcf.core.model.resources import LoadBalancerDriver, SecretKey, Security
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.list_watch import Put, Removed
from lbcf.kube.secrets import Secrets, choose_secrets
from lbcf.kube.store import Store
from lbcf.wire.metadata import Identity
from tests.builders import a_driver
from tests.kube.builders import PromptClock, event
from tests.kube.scripted import Answer, ScriptedServer, answer, refusal, watch


KEY = ObjectKey("shop", "token")
SOON = timedelta(seconds=20)


def secret_json(text: str = "aHVzaA==", version: int = 1) -> dict[str, object]:
    """A Secret as the server has it."""
    metadata = {
        "name": KEY.name,
        "namespace": KEY.namespace,
        "uid": "uid-token",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, "type": "Opaque", "data": {"token": text}}


def a_list(*items: object, version: int = 1) -> Answer:
    """A list of Secrets."""
    return answer({"metadata": {"resourceVersion": str(version)}, "items": items})


def naming(*, token: bool = True) -> LoadBalancerDriver:
    """A driver of the namespace `shop` that names the Secret, or does no longer."""
    security = Security(token=SecretKey(KEY.name, "token") if token else None)
    return attrs.evolve(a_driver(namespace=KEY.namespace), security=security)


@attrs.define
class Followed:
    """Secrets, the drivers that name them, and who was told of changes."""

    secrets: Secrets
    drivers: Store[LoadBalancerDriver]
    told: asyncio.Queue[ObjectKey]


@pytest.fixture(name="followed")
async def _followed(client: KubeClient, clock: PromptClock) -> AsyncIterator[Followed]:
    """Follow what the scripted server has."""
    secrets, told = Secrets(client, clock), asyncio.Queue[ObjectKey]()
    drivers: Store[LoadBalancerDriver] = Store()
    secrets.follow(drivers)
    secrets.on_change(told.put_nowait)
    yield Followed(secrets, drivers, told)
    await secrets.close()


async def test_a_secret_is_followed_by_its_name(
    followed: Followed, server: ScriptedServer
) -> None:
    """List and watch name it, in its namespace; the driver is told of it."""
    changed = event("MODIFIED", secret_json("bmV3", 2))
    server.script(a_list(secret_json()), watch(changed, ending="hang"))
    followed.drivers.apply(Put(naming()))

    assert naming().meta.key == await followed.told.get()
    assert naming().meta.key == await followed.told.get()
    found = followed.secrets.find(KEY)
    assert isinstance(found, Secret)
    assert {"token": b"new"} == found.values
    for request in server.requests:
        assert "/api/v1/namespaces/shop/secrets" == request.path
        assert "metadata.name=token" == request.query["fieldSelector"]


async def test_a_secret_that_is_not_there(
    followed: Followed, server: ScriptedServer
) -> None:
    """Before the list nothing is known; after it, that there is none."""
    server.script(a_list(), watch(ending="hang"))
    followed.drivers.apply(Put(naming()))

    assert NoSecret(Lack.UNREAD) == followed.secrets.find(KEY)
    await followed.secrets.settle(SOON)
    assert NoSecret(Lack.MISSING) == followed.secrets.find(KEY)


async def test_a_secret_that_may_not_be_read(
    followed: Followed, server: ScriptedServer
) -> None:
    """What the server says is for people; it is asked again and again."""
    server.script(refusal(403, "Forbidden", "secrets is forbidden"))
    followed.drivers.apply(Put(naming()))
    await server.done.wait()

    found = followed.secrets.find(KEY)
    assert isinstance(found, NoSecret)
    assert Lack.UNREAD is found.lack
    assert "secrets is forbidden" in found.text


async def test_what_nobody_names_is_let_go(
    followed: Followed, server: ScriptedServer
) -> None:
    """A driver that changes its mind, or goes, leaves no watch and no secret behind."""
    server.script(a_list(secret_json()), watch(ending="hang"))
    followed.drivers.apply(Put(naming()))
    await followed.told.get()
    other = naming(token=False)
    meta = attrs.evolve(other.meta, resource_version="2")
    followed.drivers.apply(Put(attrs.evolve(other, meta=meta)))

    assert isinstance(followed.secrets.find(KEY), NoSecret)
    followed.drivers.apply(Removed(Identity(meta.key, meta.uid, "3")))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (answer(secret_json()), None),
        (refusal(404, "NotFound"), Lack.MISSING),
        (refusal(403, "Forbidden"), Lack.UNREAD),
    ],
)
async def test_secrets_are_read_once_where_no_drivers_are_followed(
    followed: Followed, server: ScriptedServer, given: Answer, expected: Lack | None
) -> None:
    """Who asks about a driver now and then reads its Secrets as they are then."""
    server.script(given)
    async with followed.secrets.reading(naming()):
        found = followed.secrets.find(KEY)

    assert expected == getattr(found, "lack", None)
    assert "hush" not in msgspec.json.encode(str(found)).decode()
    assert isinstance(followed.secrets.find(KEY), NoSecret), "nothing is kept"


def keys(namespace: str, count: int) -> list[ObjectKey]:
    """Name so many Secrets of a namespace."""
    return [ObjectKey(namespace, f"s{number:04}") for number in range(count)]


GREEDY, MODEST, SHARED = keys("greedy", 2000), keys("shop", 3), keys("kube-system", 90)


@pytest.mark.parametrize("already", [[], GREEDY[:1000]], ids=["at once", "late"])
def test_a_namespace_that_names_many_takes_nobodys_place(
    already: list[ObjectKey],
) -> None:
    """Another's are followed, whoever came first, and all of kube-system's."""
    found = choose_secrets([*GREEDY, *MODEST, *SHARED], already)

    assert {*MODEST, *SHARED} <= found
    assert 64 == len(found - {*MODEST, *SHARED})


def test_many_namespaces_that_name_many() -> None:
    """Where all places are taken, the first Secret of each counts more than a second."""
    greedy = [key for number in range(30) for key in keys(f"greedy-{number}", 100)]
    found = choose_secrets([*greedy, *MODEST, *SHARED], greedy[:1000])

    assert {*MODEST, *SHARED} <= found
    assert 1000 == len(found)


def test_what_is_followed_already_stays() -> None:
    """A newcomer of the same namespace waits, whatever its name."""
    found = choose_secrets(GREEDY[:100], GREEDY[36:100])

    assert set(GREEDY[36:100]) == found


async def test_secret_that_is_not_followed_says_why(followed: Followed) -> None:
    """The driver's owner learns whose limit it is, and gets the next free place."""
    names = [naming_only(key) for key in GREEDY[:65]]
    for driver in names:
        followed.drivers.apply(Put(driver))
    lack = followed.secrets.find(GREEDY[64])

    assert isinstance(lack, NoSecret)
    assert "namespace greedy names too many Secrets: 64 of a namespace" in lack.text
    meta = names[0].meta
    followed.drivers.apply(Removed(Identity(meta.key, meta.uid, "9")))
    assert NoSecret(Lack.UNREAD) == followed.secrets.find(GREEDY[64])


def naming_only(key: ObjectKey) -> LoadBalancerDriver:
    """A driver, named after the one Secret that it names."""
    driver = a_driver(key.name, namespace=key.namespace)
    return attrs.evolve(driver, security=Security(token=SecretKey(key.name, "token")))
