"""Reads the groups and Binds of a namespace, for those who decide by what selects a pod.

Watches of different kinds tell in no order: of a pod before the group that was there first.
"""

import asyncio

from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from lbcf.controller.view import View
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.gate import Wait, unclear_group
from lbcf.kube.kinds import BINDS, GROUPS, HasMeta, Resource
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.shared_call import SharedCall


T = TypeVar("T", bound=HasMeta)


class GroupReader:
    """Lists the groups and Binds of a namespace into the view.

    Args:
        client: the API server.
        view: takes in what is listed.
    """

    def __init__(self, client: KubeReader, view: View) -> None:
        self._client = client
        self._view = view
        self._lists: WeakValueDictionary[str, SharedCall[tuple[Wait, ...]]] = (
            WeakValueDictionary()
        )

    async def since_now(self, namespace: str) -> tuple[Wait, ...]:
        """Have everything in the view that a quorum LIST sent from now on shows.

        Returns:
            What cannot be understood, and may be a group that selects a pod.

        Raises:
            KubeError: the API server could not say.
        """
        shared = self._lists.get(namespace)
        if shared is None:
            shared = SharedCall(partial(self._list, namespace))
            self._lists[namespace] = shared
        return await shared.since_now()

    async def _list(self, namespace: str) -> tuple[Wait, ...]:
        groups, binds = await asyncio.gather(
            self._unclear(GROUPS, self._view.groups, namespace),
            self._unclear(BINDS, self._view.binds, namespace),
        )
        return (
            *(unclear_group(key, told) for key, told in groups),
            *(unclear_group(bind_group_key(key), told) for key, told in binds),
        )

    async def _unclear(
        self, kind: Resource[T], store: Store[T], namespace: str
    ) -> tuple[tuple[ObjectKey, str], ...]:
        """List a kind into its store; return what cannot be read, and why."""
        page = await self._client.list(kind, Selection(namespace))
        for found in page.objects:
            store.observe(found)
        return tuple((one.identity.key, one.message) for one in page.unreadable)
