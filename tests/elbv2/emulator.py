"""ELBv2's API on a port of the loopback interface, as far as the driver uses it.

Clients sign, send forms and read XML as with AWS. Tests look at `groups` and `calls`,
push its clock on, and make it fail. Load balancers have names alone: `state` has clients.
"""

import asyncio
import contextlib
import itertools
import socket
import struct

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Self
from urllib.parse import parse_qsl

import attrs

from aiohttp import web

from lbcf.sdk import Clock
from tests.elbv2 import query
from tests.elbv2.signing import Key, check_signature
from tests.elbv2.state import ApiError, Description, EmulatedBalancer, EmulatedGroup


OURS = "AKIALBCF"
"""Access key of the driver."""
THEIRS = "AKIASOMEBODYELSE"
"""Access key of other people."""
BURST, REFILL = 40, 10.0
"""Describing calls that AWS bears at once, and per second after that."""
CHANGING_BURST, CHANGING_REFILL = 20, 4.0
"""The same of calls that change something (elb-api-throttling)."""

MOST_BALANCERS = 20
"""That one call of DescribeLoadBalancers may name."""

_CHANGING = ("RegisterTargets", "DeregisterTargets", "ModifyTargetGroupAttributes")

Form = Mapping[str, str]
Fault = Callable[[], web.Response]


@attrs.frozen
class Call:
    """A call that had an effect, or could have had one.

    Attributes:
        action: of the API.
        access: access key of who called.
        targets: that it named.
        touched: those that it put in, or took out.
    """

    action: str
    access: str
    targets: Sequence[Description]
    touched: Sequence[tuple[str, int]] = ()


@attrs.define(eq=False)
class Bucket:
    """A token bucket, by which AWS counts calls.

    Attributes:
        burst: calls at once.
        refill: calls per second after that.
    """

    clock: Clock
    burst: int
    refill: float
    _tokens: float = attrs.field(init=False)
    _counted: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin full."""
        self._tokens = float(self.burst)

    def take(self) -> bool:
        """Take a token, if there is one."""
        now = self.clock.monotonic()
        grown = self._tokens + (now - self._counted) * self.refill
        self._tokens, self._counted = min(float(self.burst), grown), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@attrs.define(eq=False)
class Emulator:
    """The service.

    Attributes:
        clock: for all states, and for throttling.
        groups: by ARN.
        balancers: by ARN.
        keys: credentials that are known.
        calls: in the order in which they were answered.
        faults: what calls of an action are answered with in place of the truth.
        late: seconds by which answers are late; the call takes effect at once.
        mute: actions that take effect, and are answered when nobody waits any more.
        lost: how the next calls of an action end that take effect; True: by a reset.
        throttles: calls are counted as AWS counts them.
        throttled: how many were too many.
    """

    clock: Clock
    groups: dict[str, EmulatedGroup] = attrs.field(factory=dict)
    balancers: dict[str, EmulatedBalancer] = attrs.field(factory=dict)
    keys: dict[str, Key] = attrs.field(factory=dict)
    calls: list[Call] = attrs.field(factory=list)
    faults: dict[str, list[Fault]] = attrs.field(factory=dict)
    late: float = 0.0
    mute: set[str] = attrs.field(factory=set)
    lost: dict[str, list[bool]] = attrs.field(factory=dict)
    throttles: bool = False
    throttled: int = 0
    url: str = attrs.field(default="", init=False)
    _closing: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _describing: "Bucket" = attrs.field(init=False)
    _changing: "Bucket" = attrs.field(init=False)
    _numbers: "itertools.count[int]" = attrs.field(factory=itertools.count, init=False)

    def __attrs_post_init__(self) -> None:
        """Count the two kinds of calls apart."""
        self._describing = Bucket(self.clock, BURST, REFILL)
        self._changing = Bucket(self.clock, CHANGING_BURST, CHANGING_REFILL)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, clock: Clock) -> AsyncIterator[Self]:
        """Serve for a block."""
        emulator = cls(clock)
        emulator.keys |= {OURS: Key("secret-of-lbcf"), THEIRS: Key("secret-of-others")}
        app = web.Application()
        app.router.add_post("/", emulator.serve)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            emulator.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield emulator
        finally:
            emulator._closing.set()
            await runner.cleanup()

    def add(self, group: EmulatedGroup) -> EmulatedGroup:
        """Have a target group."""
        self.groups[group.arn] = group
        return group

    def attach(self, balancer: EmulatedBalancer, *groups: EmulatedGroup) -> None:
        """Have a load balancer whose listeners send to target groups."""
        self.balancers[balancer.arn] = balancer
        for group in groups:
            group.balancers.append(balancer.arn)

    def fail(
        self,
        action: str,
        error: ApiError,
        times: int = 1,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Answer the next calls of an action with an error; they have no effect.

        Args:
            action: of the API.
            error: what is answered.
            times: how many calls.
            meanwhile: called at each, before its answer.
        """

        def fault() -> web.Response:
            """Answer with it."""
            meanwhile()
            return self._error(error)

        self.faults.setdefault(action, []).extend([fault] * times)

    def babble(self, action: str, status: int, page: str, times: int = 1) -> None:
        """Answer the next calls of an action with HTML, as proxies do."""

        def fault() -> web.Response:
            """Answer with it."""
            return web.Response(status=status, text=page, content_type="text/html")

        self.faults.setdefault(action, []).extend([fault] * times)

    def lose(self, action: str, *, reset: bool = False) -> None:
        """Let the next call of an action take effect, and hang up in place of an answer.

        Such calls come before those that fail.

        Args:
            action: of the API.
            reset: the connection is reset, as by something in between that restarts.
        """
        self.lost.setdefault(action, []).append(reset)

    def register(self, group: EmulatedGroup, *keys: tuple[str, int]) -> None:
        """Let somebody else register targets."""
        group.register(THEIRS, [Description(*key) for key in keys])

    def made(self, action: str) -> list[Call]:
        """Return the driver's calls of an action."""
        return [c for c in self.calls if (c.action, c.access) == (action, OURS)]

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one call."""
        body = await request.read()
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = form.get("Action", "")
        try:
            access = check_signature(request, body, self.keys)
            self._throttle(action)
            lost = self.lost.get(action)
            if not lost and self.faults.get(action):
                return self.faults[action].pop(0)()
            answer = self._result(action, access, form)
            if lost:
                return _hung_up(request, reset=lost.pop(0))
        except ApiError as error:
            return self._error(error)
        if action in self.mute:
            await self._closing.wait()
        await asyncio.sleep(self.late)
        return _xml(query.rendered(action, answer, self._id()), 200)

    def _result(self, action: str, access: str, form: Form) -> dict[str, object]:
        """Perform a call."""
        match action:
            case "RegisterTargets" | "DeregisterTargets":
                return self._change(action, access, form)
            case "DescribeTargetHealth":
                return self._health(form)
            case "DescribeTargetGroups":
                return self._describe(form)
            case "DescribeLoadBalancers":
                return self._describe_balancers(access, form)
            case "DescribeTargetGroupAttributes":
                return _attributes(self._group(form))
            case "ModifyTargetGroupAttributes":
                group = self._group(form)
                for one in query.members(form, "Attributes"):
                    group.set_attribute(one["Key"], one["Value"])
                self.calls.append(Call(action, access, ()))
                return _attributes(group)
            case _:
                raise ApiError("InvalidAction", f"Could not find operation {action}")

    def _change(self, action: str, access: str, form: Form) -> dict[str, object]:
        """Register or deregister."""
        group, targets = self._group(form), query.targets(form)
        if not targets:
            raise ApiError("ValidationError", "At least one target must be specified")
        before = set(group.owners)
        if action == "RegisterTargets":
            group.register(access, targets)
            touched = sorted(set(group.owners) - before)
        else:
            touched = group.deregister(targets)
        self.calls.append(Call(action, access, targets, touched))
        return {}

    def _health(self, form: Form) -> dict[str, object]:
        """Tell the health of targets, all or those that are named."""
        group = self._group(form)
        group.sweep()
        self.calls.append(Call("DescribeTargetHealth", "", ()))
        named = [(one.id, one.port or 80) for one in query.targets(form)]
        return {
            "TargetHealthDescriptions": [
                _described(key, *group.health(key)) for key in (named or group.shown)
            ]
        }

    def _describe(self, form: Form) -> dict[str, object]:
        """Tell of target groups, by name or by ARN."""
        arns = [one[""] for one in query.members(form, "TargetGroupArns")]
        names = [one[""] for one in query.members(form, "Names")]
        found = [
            group
            for group in self.groups.values()
            if group.arn in arns or group.name in names or not (arns or names)
        ]
        if len(found) < len(arns) + len(names):
            raise ApiError("TargetGroupNotFound", "One or more target groups not found")
        return {
            "TargetGroups": [
                {
                    "TargetGroupArn": group.arn,
                    "TargetGroupName": group.name,
                    "Protocol": "HTTP",
                    "Port": "80",
                    "TargetType": group.target_type,
                    "LoadBalancerArns": group.balancers,
                }
                for group in found
            ]
        }

    def _describe_balancers(self, access: str, form: Form) -> dict[str, object]:
        """Tell of load balancers: of all, where none is named."""
        arns = [one[""] for one in query.members(form, "LoadBalancerArns")]
        if len(arns) > MOST_BALANCERS:
            raise ApiError("ValidationError", f"More than {MOST_BALANCERS} ARNs")
        if not self.balancers.keys() >= set(arns):
            raise ApiError("LoadBalancerNotFound", "One or more not found")
        self.calls.append(Call("DescribeLoadBalancers", access, ()))
        return {
            "LoadBalancers": [
                {
                    "LoadBalancerArn": arn,
                    "LoadBalancerName": self.balancers[arn].name,
                    "DNSName": self.balancers[arn].dns_name,
                    "State": {"Code": "active"},
                    "Type": "network",
                }
                for arn in dict.fromkeys(arns or self.balancers)
            ]
        }

    def _group(self, form: Form) -> EmulatedGroup:
        """Return the target group that a call names."""
        group = self.groups.get(form.get("TargetGroupArn", ""))
        if group is None:
            raise ApiError("TargetGroupNotFound", "One or more target groups not found")
        return group

    def _throttle(self, action: str) -> None:
        """Count a call."""
        bucket = self._changing if action in _CHANGING else self._describing
        if self.throttles and not bucket.take():
            self.throttled += 1
            raise ApiError("Throttling", "Rate exceeded")

    def _error(self, error: ApiError) -> web.Response:
        """Answer with an error."""
        return _xml(query.rendered_error(error, self._id()), error.status)

    def _id(self) -> str:
        """Return a request id."""
        return f"00000000-0000-4000-8000-{next(self._numbers):012}"


def _attributes(group: EmulatedGroup) -> dict[str, object]:
    """Tell the attributes of a target group."""
    return {
        "Attributes": [
            {"Key": key, "Value": value} for key, value in group.attributes.items()
        ]
    }


def _described(key: tuple[str, int], state: str, reason: str) -> dict[str, object]:
    """Tell the health of one target."""
    health = {"State": state}
    if reason:
        health |= {"Reason": reason, "Description": f"because of {reason}"}
    return {
        "HealthCheckPort": str(key[1]),
        "Target": {"Port": str(key[1]), "Id": key[0]},
        "TargetHealth": health,
    }


def _hung_up(request: web.Request, *, reset: bool) -> web.Response:
    """End the connection; what is returned reaches nobody."""
    transport = request.transport
    assert isinstance(transport, asyncio.WriteTransport)
    if reset:
        no_wait = struct.pack("ii", 1, 0)
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_wait)
    transport.abort()
    return web.Response()


def _xml(body: bytes, status: int) -> web.Response:
    """Return a response of XML."""
    return web.Response(body=body, status=status, content_type="text/xml")
