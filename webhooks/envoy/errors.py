"""What can go wrong with Envoys, and what to do about it, in one line each.

EnvoyError
|- InvalidInput    the request cannot be carried out, whatever Envoys say
|- NotCreated      there is no such load balancer in the driver's state
|- Rejected        an Envoy refused what it was sent (NACK), with its own text
|- Foreign         an Envoy has it from a driver with other state
|- NotSaved        the state cannot be written to disk
`- NotYet          an Envoy has not taken it up so far, or none is connected
"""


class EnvoyError(Exception):
    """Something that is expected to go wrong, told in one line."""


class InvalidInput(EnvoyError, ValueError):  # noqa: N818
    """A field of the request, or a flag, cannot be used; nothing was changed."""


class NotCreated(EnvoyError, LookupError):  # noqa: N818
    """Nobody created the load balancer, or it was deleted."""


class Rejected(EnvoyError):  # noqa: N818
    """An Envoy answered with an error what it was sent, and keeps what it had."""


class Foreign(EnvoyError):  # noqa: N818
    """An Envoy has this load balancer from a driver with another state directory."""


class NotSaved(EnvoyError):  # noqa: N818
    """The state cannot be written, so that no Envoy was told."""


class NotYet(EnvoyError):  # noqa: N818
    """Nothing is wrong as far as is known, and it is not done."""
