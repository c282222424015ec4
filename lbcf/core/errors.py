"""The root of all errors of this project.

LbcfError
|- lbcf.wire.errors.Malformed       bytes that cannot be what they should be
|- lbcf.kube.errors.KubeError       the API server said no, or nothing
|- lbcf.drivers.errors.DriverError  a driver gave no valid answer
`- lbcf.settings.SettingsError      a flag or a file that cannot be used
"""


class LbcfError(Exception):
    """Something that this project expects to go wrong, told in one line."""
