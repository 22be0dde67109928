"""Where a model lies in the cache. Pure; the control plane computes the same paths.

    hub/models--ORG--NAME/snapshots/COMMIT/   and refs/main, refs/REVISION beside snapshots
    modelscope/ORG--NAME/REVISION/
    oci/sha256-HEX/

The hub's tree is what HF_HOME=CACHE with HF_HUB_OFFLINE=1 finds by `ORG/NAME`, without the blobs
and links that the hub's own client makes: plain files are enough, and survive any copy.
`refs/main` holds the commit and no newline, which would break the lookup.
"""

import dataclasses
import pathlib

from fetcher import uris


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The folder of the model's files, and the files that point to it, relative to the cache."""

    folder: pathlib.PurePosixPath
    refs: tuple[pathlib.PurePosixPath, ...] = ()


def folder_of(source: uris.Source, resolved: str) -> Place:
    """Where a model goes, given what its revision resolved to."""
    match source:
        case uris.HubModel(owner=owner, name=name, revision=revision):
            base = pathlib.PurePosixPath("hub", f"models--{owner}--{name}")
            refs = [base / "refs" / "main"]
            if revision != "main" and not uris.is_commit(revision):
                refs.append(base / "refs" / revision)
            return Place(folder=base / "snapshots" / resolved, refs=tuple(refs))
        case uris.ModelScopeModel(owner=owner, name=name, revision=revision):
            folder = pathlib.PurePosixPath("modelscope", f"{owner}--{name}")
            return Place(folder=folder / revision.replace("/", "%2F"))
        case uris.Artifact(digest=digest):
            return Place(folder=pathlib.PurePosixPath("oci", digest.replace(":", "-")))
