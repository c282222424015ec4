"""Reads the backends of records from the API server itself, into the view.

A view shows what watches have told so far, each at its own pace: it may have a record, and not
yet the pod that the record is about.
"""

import asyncio

from typing import TypeVar

from lbcf.controller.view import View
from lbcf.core.model.node_backends import ServiceRef
from lbcf.core.model.nodes import Node
from lbcf.core.model.resources import BackendRecord, PodRef, StaticRef
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.location import (
    is_node_gone,
    is_pod_gone,
    is_port_gone,
    node_of,
)
from lbcf.kube.errors import NotFound
from lbcf.kube.kinds import NODES, PODS, SERVICES, HasMeta, Resource
from lbcf.kube.reader import KubeReader


T = TypeVar("T", bound=HasMeta)


class BackendReader:
    """Reads pods, nodes and Services.

    Args:
        client: the API server.
        view: takes in what is read.
    """

    def __init__(self, client: KubeReader, view: View) -> None:
        self._client = client
        self._view = view

    async def is_gone(self, record: BackendRecord) -> bool:
        """Return whether a record's backend does not exist any more, by a quorum read.

        Raises:
            KubeError: nobody knows.
        """
        namespace, backend = record.meta.key.namespace, record.spec.backend
        if isinstance(backend, StaticRef):
            return False
        if isinstance(backend, PodRef):
            pod = await self._read(PODS, ObjectKey(namespace, backend.name))
            # The view has no place for one that has finished: no watch would end it.
            if pod is not None and not pod.has_finished:
                self._view.pods.observe(pod)
            return is_pod_gone(record, pod)
        if not isinstance(backend, ServiceRef):
            return is_node_gone(record, await self._read_node(record))
        node, service = await asyncio.gather(
            self._read_node(record),
            self._read(SERVICES, ObjectKey(namespace, backend.name)),
        )
        if service is not None:
            self._view.services.observe(service)
        return is_node_gone(record, node) or is_port_gone(record, service)

    async def _read_node(self, record: BackendRecord) -> Node | None:
        node = await self._read(NODES, ObjectKey("", node_of(record)))
        if node is not None:
            self._view.nodes.observe(node)
        return node

    async def _read(self, kind: Resource[T], key: ObjectKey) -> T | None:
        try:
            return await self._client.get(kind, key)
        except NotFound:
            return None
