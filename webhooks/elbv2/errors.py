"""What can go wrong with ELBv2, and what to do about it, in one line each.

    Elbv2Error
    |- InvalidInput     the request cannot be carried out, whatever AWS says
    |- TakenTarget      somebody else has put the target there
    |- NotWritten       the claim cannot be written down; nothing was sent
    |- Unreachable      no connection; nothing was sent
    |- Uncertain        no answer that can be trusted: it may have taken effect
    |- PartlyFailed     some of several target groups failed
    `- Refused          AWS answered no; one class per reason
       |- TargetRefused     because of one target, in a call that named several
       `- Throttled         too many calls: it says how long to wait

Codes as in the service's model (2015-12-01) and in AWS' list of common errors.
"""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus

import attrs


class Elbv2Error(Exception):
    """Something that is expected to go wrong, told in one line."""


class InvalidInput(Elbv2Error, ValueError):  # noqa: N818
    """A field of the request, or a flag, cannot be used; nothing was sent."""


class TakenTarget(Elbv2Error):  # noqa: N818  (adjectives say what is wrong)
    """The target is in the target group, and nothing says that it is ours."""


class NotWritten(Elbv2Error):  # noqa: N818
    """What is to be sent cannot be written down before; so it is not sent."""


class Unreachable(Elbv2Error):  # noqa: N818
    """No connection to AWS, or no credentials to sign with; nothing was sent."""


class Uncertain(Elbv2Error):  # noqa: N818
    """No answer that can be trusted: what was sent may have, or still take, effect."""


class PartlyFailed(Elbv2Error):  # noqa: N818
    """At least one of the target groups behind a load balancer failed."""


@attrs.frozen
class Answered:
    """An error as AWS told it.

    Attributes:
        action: the API's action that was called.
        code: AWS' name for the error.
        message: AWS' own words.
        status: of HTTP.
        retry_after: what the answer's Retry-After asks for; None: nothing.
    """

    action: str
    code: str
    message: str
    status: int
    retry_after: timedelta | None = None

    def __str__(self) -> str:
        return f"AWS answered {self.action} with {self.code}: {self.message!r:.160}"


class Refused(Elbv2Error):  # noqa: N818
    """AWS answered no; `advice` says what to do.

    Attributes:
        answered: what AWS said.
    """

    advice = "see AWS' reference of Elastic Load Balancing, version 2015-12-01"

    def __init__(self, answered: Answered) -> None:
        self.answered = answered
        super().__init__(f"{answered}; {self.advice}")


class TargetGroupGone(Refused):
    """There is no such target group (any more)."""

    advice = "the target group is gone: was it deleted or replaced?"


class LoadBalancerGone(Refused):
    """A load balancer was deleted since its target group named it."""

    advice = "it is looked up again"


class TargetRefused(Refused):
    """One of the targets in the call is not taken; it spoils the whole call."""

    advice = "check the address, the port and the availabilityZone parameter"


class InvalidTarget(TargetRefused):
    """The target does not exist, or is not where the target group can reach it."""

    advice = (
        "is it in the target group's VPC, of its target type, and running? An address "
        "outside of the VPC needs the parameter availabilityZone: all"
    )


class LimitReached(TargetRefused):
    """A quota is used up."""

    advice = "raise the quota, or use another target group"


class Throttled(Refused):
    """Too many calls for this account and region.

    Attributes:
        delay: how long nothing is sent.
    """

    advice = "nothing is wrong; it is sent again later"

    def __init__(self, answered: Answered, delay: timedelta) -> None:
        super().__init__(answered)
        self.delay = delay


class CredentialsRefused(Refused):
    """AWS does not take the credentials, or not any more."""

    advice = "renew the driver's credentials; new ones are read without a restart"


class Forbidden(Refused):
    """The credentials may not do this."""

    advice = "allow the driver's role this action on this target group"


class HealthUnavailable(Refused):
    """AWS cannot tell the health of targets at present."""

    advice = "an error inside AWS; it is asked again"


_REFUSALS: Mapping[str, type[Refused]] = {
    "TargetGroupNotFound": TargetGroupGone,
    "LoadBalancerNotFound": LoadBalancerGone,
    "InvalidTarget": InvalidTarget,
    "TooManyTargets": LimitReached,
    "TooManyRegistrationsForTargetId": LimitReached,
    "ValidationError": TargetRefused,
    "InvalidParameterValue": TargetRefused,
    "ExpiredToken": CredentialsRefused,
    "ExpiredTokenException": CredentialsRefused,
    "InvalidClientTokenId": CredentialsRefused,
    "UnrecognizedClientException": CredentialsRefused,
    "SignatureDoesNotMatch": CredentialsRefused,
    "IncompleteSignature": CredentialsRefused,
    "MissingAuthenticationToken": CredentialsRefused,
    "AuthFailure": CredentialsRefused,
    "AccessDenied": Forbidden,
    "AccessDeniedException": Forbidden,
    "UnauthorizedOperation": Forbidden,
    "OptInRequired": Forbidden,
    "HealthUnavailable": HealthUnavailable,
}

THROTTLING = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "SlowDown",
        "429",
    }
)
"""Codes that mean: too many calls; the SDKs of AWS know all of these."""


def refusal(answered: Answered) -> Elbv2Error:
    """Return the error that stands for what AWS answered, throttling excepted."""
    known = _REFUSALS.get(answered.code)
    if known is not None:
        return known(answered)
    if answered.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Uncertain(f"{answered}; an error inside AWS: it is asked again")
    return Refused(answered)
