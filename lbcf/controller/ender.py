"""Who ends records at present, by the Lease of the deregistrar.

The registrar writes it into a record with its address (`status.deregistrar`): that
deregistrar alone may call for the record's end without telling first. A name that is
out of date costs the record's end one more write, and its address a wait.
"""

from typing import Final

from lbcf.kube.informer import Informer
from lbcf.kube.leases import LEASES, Lease
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.runtime.clock import Clock


_NAME: Final = "lbcf-deregistrar"


class Ender:
    """Follows one Lease.

    Attributes:
        informer: reads it.
    """

    def __init__(self, client: KubeReader, clock: Clock, namespace: str) -> None:
        selection = Selection(namespace, fields=f"metadata.name={_NAME}")
        self.informer: Informer[Lease] = Informer(
            client, LEASES, clock, selection=selection
        )

    def incarnation(self) -> str:
        """Say which deregistrar leads, as far as is known; empty: none."""
        leases = self.informer.store.values()
        return next((lease.incarnation for lease in leases), "")
