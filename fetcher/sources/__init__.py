"""Where models come from. Each source is one module with the same shape.

A source lists files with what proves each of them (`plan`), and opens one file at an offset
(`open`). Retries, ranges, hashing, names and the volume are not its business.
"""

import collections.abc
import dataclasses
import typing

from fetcher import plans, transport, uris


class Source(typing.Protocol):
    """The shape that every source has."""

    def plan(self) -> plans.Plan:
        """List the files. Raises `FetchError`, or `Transient` when another try may help."""
        ...

    def open(self, file: plans.RemoteFile, start: int, end: int) -> transport.Answer:
        """Ask for bytes `start` to `end` (exclusive) of a file; errors as in `plan`.

        The answer's status is 200 or 206; whether its body is what was asked for is still to be
        looked at.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Access:
    """How sources reach their remotes: one client, the environment, and the command's options."""

    client: transport.Client
    environ: collections.abc.Mapping[str, str]
    registry_auth: str | None = None
    plain_http: bool = False


def source_of(uri: uris.Source, access: Access) -> Source:
    """The source for a parsed URI; its module is loaded only when it is needed."""
    match uri:
        case uris.HubModel():
            from fetcher.sources import huggingface

            return huggingface.Hub(uri, access)
        case uris.ModelScopeModel():
            from fetcher.sources import modelscope

            return modelscope.ModelScope(uri, access)
        case uris.Artifact():
            from fetcher.sources import registry

            return registry.Registry(uri, access)
        case _:
            typing.assert_never(uri)
