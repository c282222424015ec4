"""The EndpointSlices of Services with externalTrafficPolicy Local that groups name.

Before it: `endpoint_watch` follows them, a Service each, and nobody else's.
After it: `node_scene` asks what each node has; one that is not read yet is no answer.
"""

from collections.abc import Mapping

from lbcf.core.model.nodes import EndpointSlice, LocalState, local_states
from lbcf.core.model.values import ObjectKey
from lbcf.kube.store import Store


class EndpointBook:
    """Stores of EndpointSlices by Service."""

    def __init__(self) -> None:
        self._read: dict[ObjectKey, Store[EndpointSlice]] = {}

    def open(self, service: ObjectKey, slices: Store[EndpointSlice]) -> None:
        """Take in the store of a Service that holds a whole list from now on."""
        self._read[service] = slices

    def close(self, service: ObjectKey) -> None:
        """Forget a Service that nobody follows any more."""
        self._read.pop(service, None)

    def states(self, service: ObjectKey, port: str) -> Mapping[str, LocalState] | None:
        """Say what each node has of a Service's port, None where it is not read yet."""
        slices = self._read.get(service)
        return None if slices is None else local_states(slices.values(), port)

    def unreadable(self, service: ObjectKey) -> str | None:
        """Say why some of a Service's endpoints cannot be understood."""
        slices = self._read.get(service)
        found = slices.unreadable.items() if slices is not None else ()
        return next((f"EndpointSlice {key}: {told}" for key, told in found), None)
