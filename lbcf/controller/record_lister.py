"""Shows all records of a load balancer that there are now, however far the watch lags."""

from collections import Counter
from collections.abc import Callable, Mapping

import attrs

from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import EVERYTHING, Selection
from lbcf.kube.reader import KubeReader
from lbcf.runtime.shared_call import SharedCall


@attrs.frozen
class Listed:
    """What there is.

    Attributes:
        records: how many there are, by load balancer.
        unreadable: records of any load balancer that cannot be understood.
    """

    records: Mapping[ObjectKey, int]
    unreadable: tuple[ObjectKey, ...]


class RecordLister:
    """Lists records into their store, one list at a time.

    A program in front of many load balancers that restarts resets all of them at once,
    and each list holds a page of records in memory: so one list is shared by all of them.

    Args:
        client: the API server.
        observe: sees what is listed of the load balancers that were asked about.
    """

    def __init__(
        self, client: KubeReader, observe: Callable[[BackendRecord], None]
    ) -> None:
        self._client = client
        self._observe = observe
        self._asked: set[ObjectKey] = set()
        self._list = SharedCall(self._list_asked)

    async def since_now(self, load_balancer: ObjectKey) -> Listed:
        """See every record of a load balancer that there is now.

        Raises:
            KubeError: the API server could not say.
        """
        self._asked.add(load_balancer)
        return await self._list.since_now()

    async def _list_asked(self) -> Listed:
        """List what is asked for."""
        asked, self._asked = self._asked, set()
        found: Counter[ObjectKey] = Counter()
        unreadable: list[ObjectKey] = []
        for where in _selections(asked):
            async for page in self._client.list_pages(RECORDS, where):
                unreadable.extend(one.identity.key for one in page.unreadable)
                for record in page.objects:
                    if record.load_balancer_key in asked:
                        found[record.load_balancer_key] += 1
                        self._observe(record)
        return Listed(found, tuple(unreadable))


def _selections(load_balancers: set[ObjectKey]) -> tuple[Selection, ...]:
    """Return what is to be listed: records are where their load balancer is, or anywhere."""
    namespaces = {key.namespace for key in load_balancers}
    if SYSTEM_NAMESPACE in namespaces:
        return (EVERYTHING,)
    return tuple(Selection(namespace) for namespace in sorted(namespaces))
