"""The calls of ELBv2 that are made, and what went wrong with them as our errors.

The lowest part of the driver. aiobotocore signs, sends, and reads the XML; it repeats a
reading that was throttled or not answered once within the same attempt, and never a
change. The longer waits are `pace`'s, and those of whoever calls the driver.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from socket import gaierror
from typing import TYPE_CHECKING, TypeVar

import attrs

from aiohttp import ClientConnectorError
from botocore import exceptions as aws
from botocore.parsers import ResponseParserError

from lbcf.sdk import Clock
from webhooks.elbv2.budget import Budget
from webhooks.elbv2.changes import Action, Change
from webhooks.elbv2.errors import (
    THROTTLING,
    Answered,
    Elbv2Error,
    InvalidInput,
    Uncertain,
    Unreachable,
    refusal,
)
from webhooks.elbv2.load_balancers import arn_region
from webhooks.elbv2.pace import Pace
from webhooks.elbv2.targets import Health, Target


if TYPE_CHECKING:
    from types_aiobotocore_elbv2 import ElasticLoadBalancingv2Client as ElbClient
    from types_aiobotocore_elbv2.type_defs import TargetDescriptionTypeDef


_T = TypeVar("_T")

_UNSENT = (
    aws.ConnectTimeoutError,
    aws.SSLError,
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.CredentialRetrievalError,
    aws.MetadataRetrievalError,
    aws.ProxyConnectionError,
)
"""Errors after which it is certain that nothing was done."""


@attrs.frozen
class GroupDescription:
    """What AWS says of a target group.

    Attributes:
        arn: its one name.
        target_type: ip, instance, lambda or alb.
        balancers: ARNs of those whose listeners send to it.
    """

    arn: str
    target_type: str
    balancers: Sequence[str] = ()


class Region:
    """The calls to one region.

    Args:
        reading: for what only reads.
        changing: for what changes something; it sends each call once.
        clock: for waits.

    Attributes:
        budget: of readings at rest.
    """

    def __init__(
        self, reading: "ElbClient", changing: "ElbClient", clock: Clock
    ) -> None:
        self._reading = reading
        self._changing = changing
        self.budget = Budget()
        self._reads = Pace(clock)
        self._changes = Pace(clock)

    async def change(
        self, group: str, action: Action, changes: Sequence[Change]
    ) -> None:
        """Register or deregister targets, each with its port."""
        client = self._changing
        calls = {
            Action.REGISTER: client.register_targets,
            Action.DEREGISTER: client.deregister_targets,
        }
        # Two records may want one target; a call names it once.
        once = {change.target: change for change in changes}
        targets = [_description(change) for change in once.values()]
        await _made(
            self._changes,
            action,
            lambda: calls[action](TargetGroupArn=group, Targets=targets),
        )

    async def health(self, group: str) -> Mapping[Target, Health]:
        """Return all targets that are in or draining; those without port are not ours.

        The answer is never cut into pages.
        """
        answer = await _made(
            self._reads,
            "DescribeTargetHealth",
            lambda: self._reading.describe_target_health(TargetGroupArn=group),
        )
        found: dict[Target, Health] = {}
        for row in answer["TargetHealthDescriptions"]:
            target, health = row.get("Target", {}), row.get("TargetHealth", {})
            if "Port" in target:
                key = Target(target["Id"], target["Port"])
                found[key] = Health(
                    health.get("State", ""),
                    health.get("Reason", ""),
                    health.get("Description", ""),
                )
        return found

    async def describe(self, group: str) -> list[GroupDescription]:
        """Return a target group, by ARN or by name."""
        describe = self._reading.describe_target_groups
        answer = await _made(
            self._reads,
            "DescribeTargetGroups",
            lambda: (
                describe(TargetGroupArns=[group])
                if arn_region(group)
                else describe(Names=[group])
            ),
        )
        return [
            GroupDescription(
                found["TargetGroupArn"],
                found.get("TargetType", ""),
                found.get("LoadBalancerArns", ()),
            )
            for found in answer["TargetGroups"]
        ]

    async def hostnames(self, balancers: Sequence[str]) -> list[str]:
        """Return the DNS names of load balancers, one at least, in small letters."""
        describe = self._reading.describe_load_balancers
        answer = await _made(
            self._reads,
            "DescribeLoadBalancers",
            lambda: describe(LoadBalancerArns=balancers),
        )
        names = (found.get("DNSName", "") for found in answer["LoadBalancers"])
        return [name.lower() for name in names if name]

    async def attributes(self, group: str) -> dict[str, str]:
        """Return the attributes of a target group."""
        answer = await _made(
            self._reads,
            "DescribeTargetGroupAttributes",
            lambda: self._reading.describe_target_group_attributes(
                TargetGroupArn=group
            ),
        )
        return {
            attribute["Key"]: attribute.get("Value", "")
            for attribute in answer["Attributes"]
        }

    async def set_attributes(self, group: str, values: Mapping[str, str]) -> None:
        """Give a target group some attributes."""
        await _made(
            self._changes,
            "ModifyTargetGroupAttributes",
            lambda: self._changing.modify_target_group_attributes(
                TargetGroupArn=group,
                Attributes=[{"Key": key, "Value": one} for key, one in values.items()],
            ),
        )


def _description(change: Change) -> "TargetDescriptionTypeDef":
    """Return a target as the API wants it."""
    said: TargetDescriptionTypeDef = {
        "Id": change.target.id,
        "Port": change.target.port,
    }
    if change.zone:
        said["AvailabilityZone"] = change.zone
    return said


async def _made(pace: Pace, action: str, call: Callable[[], Awaitable[_T]]) -> _T:
    """Make a call.

    Raises:
        Elbv2Error: what went wrong with it.
    """
    sent = pace.check()
    try:
        answer = await call()
    except aws.ClientError as error:
        answered = _answered(action, error)
        if answered.code in THROTTLING:
            raise pace.refuse(answered, sent) from error
        raise refusal(answered) from error
    except _UNSENT as error:
        raise Unreachable(f"{action} was not sent: {error}") from error
    except aws.EndpointConnectionError as error:
        raise _unconnected(action, error) from error
    except aws.ParamValidationError as error:
        raise InvalidInput(f"{action} cannot be composed: {error}") from error
    except (ResponseParserError, KeyError) as error:
        # The KeyError is botocore's, about a page that happens to be well-formed.
        raise Uncertain(
            f"the answer to {action} is not that of ELBv2: is there a proxy in "
            "between, or does --endpoint-url lead elsewhere?"
        ) from error
    except (aws.BotoCoreError, OSError) as error:
        raise Uncertain(f"no answer to {action}: {one_line(error)}") from error
    pace.accept(sent)
    return answer


def _unconnected(action: str, error: aws.EndpointConnectionError) -> Elbv2Error:
    """Return what it means that there is no connection.

    aiobotocore has one error for nobody who listens, and for a connection that was reset
    after the call was sent.
    """
    if isinstance(error.kwargs.get("error"), ClientConnectorError | gaierror):
        return Unreachable(f"{action} was not sent: {error}")
    return Uncertain(f"no answer to {action}: {one_line(error)}")


def _answered(action: str, error: aws.ClientError) -> Answered:
    """Read an error of the API."""
    said = error.response.get("Error", {})
    meta = error.response.get("ResponseMetadata", {})
    wait = meta.get("HTTPHeaders", {}).get("retry-after", "")
    return Answered(
        action,
        str(said.get("Code", "")),
        str(said.get("Message", "")),
        int(meta.get("HTTPStatusCode", 0)),
        timedelta(seconds=int(wait)) if wait.isdigit() else None,
    )


def one_line(error: Exception) -> str:
    """Return the text of an error of the library on one line, not too long."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]
