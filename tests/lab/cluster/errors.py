"""What can go wrong with a cluster, for people and for tests.

The command line prints a `ClusterError` as one line and ends with exit code 2;
every other exception is a fault of this package and keeps its traceback.

    ClusterError
     ├ MissingError    something of the machine is missing; the text says how to get it
     ├ StartError      the cluster did not come up; the text holds the ends of the logs
     └ KubectlError    a kubectl call failed; the text is what kubectl said
"""


class ClusterError(Exception):
    """The request cannot be carried out; the text says why and what to do."""


class MissingError(ClusterError):
    """Go, root, a package or a kernel feature is missing."""


class StartError(ClusterError):
    """The cluster did not become ready in time, or one of its parts died."""


class KubectlError(ClusterError):
    """A kubectl call ended with an exit code other than 0."""
