"""Shows all records of a load balancer that there are now, however far the watch lags."""

from collections.abc import Callable

import structlog

from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import KubeError
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import EVERYTHING, Selection
from lbcf.kube.reader import KubeReader
from lbcf.runtime.shared_call import SharedCall


_log = structlog.get_logger(__name__)


class RecordLister:
    """Lists records into their store, one list at a time.

    A program in front of many load balancers that restarts resets all of them at once,
    and each list holds a page of records in memory: so one list is shared by all of them.

    Args:
        client: the API server.
        observe: sees what is listed.
    """

    def __init__(
        self, client: KubeReader, observe: Callable[[BackendRecord], None]
    ) -> None:
        self._client = client
        self._observe = observe
        self._asked: set[ObjectKey] = set()
        self._list = SharedCall(self._list_asked)

    async def since_now(self, load_balancer: ObjectKey) -> bool:
        """See every record of a load balancer that there is now.

        Returns:
            False: the API server could not say.
        """
        self._asked.add(load_balancer)
        return await self._list.since_now()

    async def _list_asked(self) -> bool:
        """List what is asked for; False: it failed."""
        asked, self._asked = self._asked, set()
        try:
            pages = self._client.list_pages(RECORDS, _selection(asked))
            async for page in pages:
                for record in page.objects:
                    self._observe(record)
        except KubeError as error:
            names = sorted(map(str, asked))
            _log.warning("records.unlisted", load_balancers=names, error=str(error))
            return False
        return True


def _selection(load_balancers: set[ObjectKey]) -> Selection:
    namespaces = {key.namespace for key in load_balancers}
    if len(namespaces) > 1 or SYSTEM_NAMESPACE in namespaces:
        return EVERYTHING
    return Selection(namespaces.pop())
