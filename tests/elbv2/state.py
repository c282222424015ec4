"""Target groups as ELBv2 keeps them, on a clock that tests may push on.

`tests.elbv2.emulator` serves them. What is modelled: the key (id, port), initial ->
healthy -> draining -> gone by the clock, all or nothing per call, limits, who
registered what, and connections that live longer or shorter than the drain.
"""

import ipaddress

from collections.abc import Mapping, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import Clock


Key = tuple[str, int]

ACCOUNT = "123456789012"
REGION = "eu-test-1"
DELAY = "deregistration_delay.timeout_seconds"
LONGEST_DELAY = 3600


class ApiError(Exception):
    """An error as the API answers it.

    Attributes:
        code: the API's name for it.
        status: of HTTP.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@attrs.frozen
class Description:
    """A target as a call names it.

    Attributes:
        id: an IP address or an instance.
        port: None where the call leaves it out.
        zone: empty where the call leaves it out.
    """

    id: str
    port: int | None = None
    zone: str = ""


@attrs.define(eq=False)
class Connection:
    """A connection of a client to a target, through the load balancer.

    Attributes:
        key: of the target.
        began: seconds of the clock.
        ends: when the client is through, if nobody cuts it before.
        cut_at: when the load balancer gave up on it.
    """

    key: Key
    began: float
    ends: float
    cut_at: float | None = None


@attrs.define(eq=False)
class EmulatedTarget:
    """A registered target.

    Attributes:
        owner: access key of who registered it.
        since: seconds of the clock when it was.
        explicit: its port was said.
        left_at: when it was deregistered; None: it is in.
        delay: seconds from then until it is gone.
    """

    owner: str
    since: float
    explicit: bool
    left_at: float | None = None
    delay: float = 0.0

    def is_gone(self, now: float) -> bool:
        """Tell whether its delay is over."""
        return self.left_at is not None and now >= self.left_at + self.delay


@attrs.define(eq=False)
class EmulatedBalancer:
    """A load balancer, as its owner has made it.

    Attributes:
        name: as its owner named it.
        dns_name: as AWS named it, in the letters of `name`.
    """

    name: str
    dns_name: str

    @property
    def arn(self) -> str:
        """Its one name."""
        where = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:loadbalancer"
        return f"{where}/net/{self.name}/50dc6c495c0c9188"


@attrs.define(eq=False)
class EmulatedGroup:
    """A target group.

    Attributes:
        clock: for all states.
        name: as users named it.
        target_type: ip or instance.
        in_use: a listener uses it.
        first_checks: how long a new target is `initial`.
        lag: how long after the answer to its registration a new target is shown.
        broken: targets whose checks fail.
        quota: targets at most.
        vpc: addresses that need no availability zone.
        instances: those that there are.
        balancers: ARNs of those whose listeners send to it.
    """

    clock: Clock
    name: str = "web"
    target_type: str = "ip"
    in_use: bool = True
    first_checks: timedelta = timedelta()
    lag: timedelta = timedelta()
    quota: int = 1000
    vpc: str = "198.18.0.0/15"
    instances: Sequence[str] = ()
    balancers: list[str] = attrs.field(factory=list)
    broken: set[Key] = attrs.field(factory=set)
    targets: dict[Key, EmulatedTarget] = attrs.field(factory=dict, init=False)
    connections: list[Connection] = attrs.field(factory=list, init=False)
    attributes: dict[str, str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with what AWS gives a new target group."""
        self.attributes = {
            DELAY: "300",
            "stickiness.enabled": "false",
            "load_balancing.algorithm.type": "round_robin",
        }

    @property
    def arn(self) -> str:
        """Its one name."""
        where = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup"
        return f"{where}/{self.name}/50dc6c495c0c9188"

    @property
    def owners(self) -> Mapping[Key, str]:
        """Who registered the targets that are in."""
        self.sweep()
        return {
            key: one.owner for key, one in self.targets.items() if one.left_at is None
        }

    @property
    def shown(self) -> Sequence[Key]:
        """Which targets are told of: of one that has only just come nothing is said."""
        shown_since = self.clock.monotonic() - self.lag.total_seconds()
        return sorted(k for k, one in self.targets.items() if one.since <= shown_since)

    def register(self, owner: str, wanted: Sequence[Description]) -> None:
        """Register all, or none and say why; what drains comes back."""
        self.sweep()
        keys = [self._checked(one) for one in wanted]
        if len({*self.targets, *keys}) > self.quota:
            raise ApiError("TooManyTargets", "The maximum number of targets is reached")
        for key, one in zip(keys, wanted, strict=True):
            present = self.targets.get(key)
            if present is None or present.left_at is not None:
                self.targets[key] = EmulatedTarget(
                    owner, self.clock.monotonic(), one.port is not None
                )

    def deregister(self, wanted: Sequence[Description]) -> list[Key]:
        """Begin to drain all that are in; return which. Others are no error."""
        self.sweep()
        left = []
        for one in wanted:
            key = (one.id, 80 if one.port is None else one.port)
            target = self.targets.get(key)
            # Without its port, a target that was registered with one is not meant.
            unnamed = one.port is None and target is not None and target.explicit
            if target is None or target.left_at is not None or unnamed:
                continue
            target.left_at = self.clock.monotonic()
            target.delay = float(self.attributes[DELAY])
            left.append(key)
        return left

    def health(self, key: Key) -> tuple[str, str]:
        """Return state and reason of a target."""
        self.sweep()
        target = self.targets.get(key)
        if target is None:
            return ("unused", "Target.NotRegistered")
        if target.left_at is not None:
            return ("draining", "Target.DeregistrationInProgress")
        if not self.in_use:
            return ("unused", "Target.NotInUse")
        age = self.clock.monotonic() - target.since
        if age < self.first_checks.total_seconds():
            return ("initial", "Elb.InitialHealthChecking")
        if key in self.broken:
            return ("unhealthy", "Target.FailedHealthChecks")
        return ("healthy", "")

    def connect(self, length: timedelta) -> Connection:
        """Let a client in at a target that may have new ones, the idlest first."""
        states = {key: self.health(key)[0] for key in self.targets}
        healthy = [key for key, state in states.items() if state == "healthy"]
        # With nobody healthy, ELBv2 lets clients in everywhere.
        able = healthy or [k for k, state in states.items() if state != "draining"]
        now = self.clock.monotonic()
        loads = dict.fromkeys(able, 0)
        for one in self.connections:
            if one.key in loads and one.ends > now:
                loads[one.key] += 1
        chosen = min(able, key=lambda key: loads[key])
        made = Connection(chosen, now, now + length.total_seconds())
        self.connections.append(made)
        return made

    def set_attribute(self, key: str, value: str) -> None:
        """Change an attribute."""
        if key not in self.attributes:
            raise ApiError("ValidationError", f"attribute {key!r} is not known")
        is_delay = key == DELAY
        if is_delay and not (value.isdigit() and int(value) <= LONGEST_DELAY):
            raise ApiError(
                "InvalidConfigurationRequest", f"{key} must be between 0 and 3600"
            )
        self.attributes[key] = value

    def sweep(self) -> None:
        """Forget what has drained, and cut what is connected to it still."""
        now = self.clock.monotonic()
        for key, one in list(self.targets.items()):
            if one.left_at is not None and one.is_gone(now):
                self._cut(key, one.left_at + one.delay)
                del self.targets[key]

    def _cut(self, key: Key, moment: float) -> None:
        """End what is connected to a target at that moment."""
        for one in self.connections:
            if one.key == key and one.began <= moment < one.ends and not one.cut_at:
                one.cut_at = moment

    def _checked(self, wanted: Description) -> Key:
        """Return the key of a target that may be registered."""
        port = 80 if wanted.port is None else wanted.port
        if self.target_type == "instance":
            if wanted.id not in self.instances:
                raise ApiError(
                    "InvalidTarget",
                    f"The following targets are not in a running state: {wanted.id}",
                )
            return (wanted.id, port)
        try:
            address = ipaddress.ip_address(wanted.id)
        except ValueError as error:
            raise ApiError(
                "ValidationError", f"The IP address '{wanted.id}' is not a valid IPv4"
            ) from error
        if address not in ipaddress.ip_network(self.vpc) and wanted.zone != "all":
            raise ApiError(
                "InvalidTarget",
                f"The IP address '{wanted.id}' is not within the VPC; specify 'all'",
            )
        return (wanted.id, port)
