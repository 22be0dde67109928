"""The source that the flags name."""

import asyncio

from gateway.replicas import ReplicaSet
from gateway.settings import FromFile, Settings
from gateway.sources import Source
from gateway.sources.endpointslices import EndpointSliceSource
from gateway.sources.file import FileSource


def of(
    settings: Settings, into: ReplicaSet, *, service: str, port: str, urgent: asyncio.Event
) -> Source:
    """The endpoints of ``service`` at the port called ``port``."""
    where = settings.replicas_from
    if isinstance(where, FromFile):
        return FileSource(where.path, into, port_name=port, urgent=urgent)
    return EndpointSliceSource(
        into,
        account=where.account,
        namespace=settings.namespace,
        backend_service=service,
        port_name=port,
        urgent=urgent,
    )
