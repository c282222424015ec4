"""The root of all errors of this project.

LbcfError
|- lbcf.wire.errors.Malformed       bytes that cannot be what they should be
|- lbcf.kube.errors.KubeError       the API server said no, or nothing
|- lbcf.drivers.errors.DriverError  a driver gave no valid answer
`- lbcf.settings.SettingsError      a flag or a file that cannot be used
"""

from datetime import timedelta


class LbcfError(Exception):
    """Something that this project expects to go wrong, told in one line.

    Attributes:
        retry_after: when the other side wants to be asked again, None if it did not say.
    """

    retry_after: timedelta | None = None
