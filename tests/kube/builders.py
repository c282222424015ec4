"""Objects with only what a test is about said, as JSON and as values."""

from datetime import timedelta

import attrs
import msgspec

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.kinds import Resource
from lbcf.wire.errors import Malformed
from lbcf.wire.metadata import MetaOnly, parse_meta_only
from tests.fakes.clock import VirtualClock


@attrs.frozen
class Thing:
    """A made-up kind: one text that must be one."""

    meta: Meta
    text: str


class _Json(msgspec.Struct):
    """A thing's own field."""

    text: str = ""


def parse_thing(body: bytes) -> Thing:
    """Read a thing; one whose text is no string is malformed."""
    try:
        text = msgspec.json.decode(body, type=_Json).text
    except msgspec.DecodeError as error:
        raise Malformed(f"thing: {error}") from error
    return Thing(parse_meta_only(body).meta, text)


THINGS = Resource("lbcf.test", "v1", "things", "Thing", parse_thing)
CONFIG_MAPS: Resource[MetaOnly] = Resource(
    "", "v1", "configmaps", "ConfigMap", parse_meta_only
)


def key(name: str) -> ObjectKey:
    """Make a key in the tests' usual namespace."""
    return ObjectKey("shop", name)


def thing_json(
    name: str, version: int | str, text: object = "", uid: str = ""
) -> dict[str, object]:
    """Make a thing as the API server sends it; the uid follows from the name."""
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, "text": text}


def a_thing(name: str, version: int | str, text: str = "", uid: str = "") -> Thing:
    """Make a thing."""
    meta = Meta(key(name), Uid(uid or f"uid-{name}"), str(version))
    return Thing(meta, text)


def things(*items: object, version: int | str = 1, rest: str = "") -> object:
    """Make a list as the API server sends it."""
    metadata = {"resourceVersion": str(version), "continue": rest}
    return {"kind": "ThingList", "metadata": metadata, "items": list(items)}


def event(kind: str, item: object) -> dict[str, object]:
    """Make a line of a watch."""
    return {"type": kind, "object": item}


def bookmark(version: int) -> dict[str, object]:
    """Make a bookmark."""
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return event("BOOKMARK", {"kind": "Thing", "metadata": metadata})


class PromptClock(VirtualClock):
    """Notes how long it was to sleep, and wakes at once; chance is one half."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[timedelta] = []

    def monotonic(self) -> float:
        """Return seconds that pass with each look: uvloop's stand still for up to 1 ms."""
        self.advance(timedelta(microseconds=1))
        return super().monotonic()

    async def sleep(self, delay: timedelta) -> None:
        """Let others run, and come back."""
        self.slept.append(delay)
        await super().sleep(timedelta(0))

    def jitter(self) -> float:
        """Return the middle."""
        return 0.5

    @property
    def pauses(self) -> list[float]:
        """Return the seconds of each sleep."""
        return [delay.total_seconds() for delay in self.slept]
