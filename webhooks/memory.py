"""A driver of a load balancer that exists in memory only: `python -m webhooks.memory`.

The example for authors, with every operation of the protocol, and the partner of tests
and benchmarks: `webhooks.memory_control` makes it fail, be slow, or have sessions. The
parameter `checkSeconds` gives a member a health check that passes after so long.
"""

import argparse
import contextlib
import ipaddress
import re

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from aiohttp import web

from lbcf import sdk
from webhooks.memory_addresses import backend_address
from webhooks.memory_control import Call, Control, Mode
from webhooks.memory_members import Members


DEFAULT_PORT = 9000

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOSTNAME = re.compile(rf"(?=.*[a-z]$)(?:{_LABEL}\.)*{_LABEL}")
"""Of RFC 1123; its last label ends in a letter, as that of no IP address does."""

_Effect = Callable[[], sdk.Succ | sdk.Running]
_Outcome = sdk.Succ | sdk.Running
_Retried = sdk.RetriedRequest[sdk.Answer]


class MemoryDriver(sdk.Driver):
    """Does what it is asked, to members in memory.

    Attributes:
        members: what there is.
        control: what tests told it, and what was called.
    """

    summary = "A driver of a load balancer that exists in memory only."

    def __init__(
        self,
        member_key: sdk.MemberKey = sdk.MemberKey.ADDRESS,
        clock: sdk.Clock | None = None,
    ) -> None:
        self.member_key = member_key
        self._clock = clock or sdk.SystemClock()
        self.members = Members(member_key, self._clock)
        self.control = Control(self.members)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the endpoints for tests."""
        return self.control.routes()

    async def validate_load_balancer(
        self, request: sdk.ValidateLoadBalancerRequest
    ) -> None:
        """Refuse an `address` that is none, and an attribute `refuse`; its value is the reason."""
        ingress_of(request.lb_spec, request.attributes)
        _refuse(request.attributes)

    async def create_load_balancer(
        self, request: sdk.CreateLoadBalancerRequest
    ) -> _Outcome:
        """Know the load balancer by all of its spec from now on."""
        ingress = ingress_of(request.lb_spec, request.attributes)
        return await self._performed(
            sdk.Operation.CREATE_LOAD_BALANCER,
            request,
            lambda: sdk.Succ(lb_info=request.lb_spec, ingress=ingress),
        )

    async def ensure_load_balancer(
        self, request: sdk.EnsureLoadBalancerRequest
    ) -> _Outcome:
        """Accept all attributes; `address` is where clients reach it."""
        ingress = ingress_of(request.lb_info, request.attributes)
        return await self._performed(
            sdk.Operation.ENSURE_LOAD_BALANCER,
            request,
            lambda: sdk.Succ(ingress=ingress),
        )

    async def delete_load_balancer(
        self, request: sdk.DeleteLoadBalancerRequest
    ) -> _Outcome:
        """Let go; members that are left stay, for they are other people's."""
        return await self._performed(
            sdk.Operation.DELETE_LOAD_BALANCER, request, sdk.Succ
        )

    async def validate_backend(self, request: sdk.ValidateBackendRequest) -> None:
        """Refuse a parameter `refuse`; its value is the reason."""
        _refuse(request.parameters)

    async def generate_backend_addr(
        self, request: sdk.GenerateBackendAddrRequest
    ) -> _Outcome:
        """Answer host:port, as the backend has them."""
        return await self._performed(
            sdk.Operation.GENERATE_BACKEND_ADDR,
            request,
            lambda: sdk.Succ(backend_addr=backend_address(request)),
        )

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> _Outcome:
        """Put the member into full service."""

        def ensure() -> sdk.Succ:
            """Put it there."""
            return sdk.Succ(in_service=self.members.ensure(request))

        return await self._performed(sdk.Operation.ENSURE_BACKEND, request, ensure)

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> _Outcome:
        """Let nothing new in; done when its sessions have ended."""

        def drain() -> _Outcome:
            """Mark it, and count what is left."""
            member = self.members.find(request)
            member.state = sdk.BackendState.DRAINING
            if not member.sessions:
                return sdk.Succ()
            return sdk.Running(active_connections=member.sessions)

        return await self._performed(sdk.Operation.DRAIN_BACKEND, request, drain)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> _Outcome:
        """Take the member out; sessions that it still has are cut and counted."""

        def deregister() -> sdk.Succ:
            """Take it out."""
            self.members.remove(request)
            return sdk.Succ()

        return await self._performed(
            sdk.Operation.DEREGISTER_BACKEND, request, deregister
        )

    async def judge_pod_deregister(
        self, request: sdk.JudgePodDeregisterRequest
    ) -> Sequence[sdk.WholeObject]:
        """Keep the pods that a test told to keep."""
        keep = self.control.keep
        return [pod for pod in request.not_ready_pods if _pod_name(pod) in keep]

    async def list_backends(
        self, request: sdk.ListBackendsRequest
    ) -> sdk.ListBackendsAnswer:
        """List the members of this load balancer."""
        listed = [
            sdk.ListedBackend(
                backend_addr=member.backend_addr,
                record_id=member.record_id,
                state=self.members.state_of(member),
                active_connections=member.sessions,
            )
            for member in self.members.of(request.lb_info)
        ]
        return sdk.ListBackendsAnswer(epoch=self.members.epoch, backends=listed)

    async def _performed(
        self, operation: sdk.Operation, request: _Retried, effect: _Effect
    ) -> _Outcome:
        """Perform a call as a test told, and remember it."""
        began = self._clock.now()
        outcome = "Cancelled"
        try:
            result = await self._behaved(operation, request, effect)
            outcome = type(result).__name__
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self.control.remember(
                Call(
                    operation=operation,
                    record_id=request.record_id,
                    retry_id=request.retry_id,
                    backend_addr=getattr(request, "backend_addr", ""),
                    drained=getattr(request, "drained", None),
                    began=began,
                    ended=self._clock.now(),
                    outcome=outcome,
                )
            )
        return result

    async def _behaved(
        self, operation: sdk.Operation, request: _Retried, effect: _Effect
    ) -> _Outcome:
        """Take the effect, unless told otherwise; a dry run takes none.

        Raises:
            Fail: told to fail.
            RuntimeError: told to break.
        """
        if request.dry_run and operation is not sdk.Operation.GENERATE_BACKEND_ADDR:
            effect = sdk.Succ
        behaviour = self.control.next_behaviour(operation)
        if behaviour is None:
            return effect()
        pause = timedelta(seconds=behaviour.seconds)
        match behaviour.mode:
            case Mode.FAIL:
                raise sdk.Fail(behaviour.msg)
            case Mode.RUN:
                return sdk.Running(msg=behaviour.msg)
            case Mode.BREAK:
                raise RuntimeError(behaviour.msg)
            case Mode.LATE:
                await self._clock.sleep(pause)
                return effect()
            case Mode.SLOW:
                result = effect()
                await self._clock.sleep(pause)
                return result


def ingress_of(*wishes: Mapping[str, str]) -> list[sdk.Ingress]:
    """Return the addresses, with commas between, that a wish names as `address`.

    Raises:
        Fail: one of them is none.
    """
    named = ",".join(wish.get("address", "") for wish in wishes)
    return [_reached_at(one) for one in dict.fromkeys(named.split(",")) if one]


def _reached_at(address: str) -> sdk.Ingress:
    """Return where clients reach a load balancer.

    Raises:
        Fail: it is neither an IP address nor a DNS name in small letters.
    """
    if _HOSTNAME.fullmatch(address):
        return sdk.Ingress(hostname=address)
    if "%" not in address:  # a zone means something on one host alone
        with contextlib.suppress(ValueError):
            return sdk.Ingress(ip=str(ipaddress.ip_address(address)))
    raise sdk.Fail(f"address: {address!r} is no IP address or DNS name")


def _refuse(wishes: dict[str, str]) -> None:
    """Refuse on wish.

    Raises:
        Fail: `refuse` is among the keys.
    """
    if "refuse" in wishes:
        raise sdk.Fail(wishes["refuse"])


def _pod_name(pod: sdk.WholeObject) -> str:
    """Return namespace/name of a whole pod."""
    match pod:
        case {"metadata": {"namespace": namespace, "name": name}}:
            return f"{namespace}/{name}"
        case _:
            return ""


def _add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what only this driver has."""
    parser.add_argument(
        "--member-key",
        choices=[key.value for key in sdk.MemberKey],
        default=sdk.MemberKey.ADDRESS.value,
        help="by what members are told apart (default: %(default)s)",
    )


def _make(chosen: argparse.Namespace) -> MemoryDriver:
    """Make the driver of the flags."""
    return MemoryDriver(sdk.MemberKey(chosen.member_key))


if __name__ == "__main__":
    sdk.run(_make, default_port=DEFAULT_PORT, flags=_add_flags)
