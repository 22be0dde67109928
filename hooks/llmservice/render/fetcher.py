"""The fetcher: in the Job that stages on a claim, and in a replica that stages itself."""

from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import Download

# Failures that another try cannot mend: the fetcher's exit codes for a bad URI, missing rights, a
# model that is not there, bytes that differ, refused content, no space, a volume that cannot be
# written, and a registry that is none. All others are outages.
FINAL_EXIT_CODES = (2, 10, 11, 12, 13, 14, 15, 16)

_CACHE = "/cache"
_AUTH = "/auth"


def container(
    download: Download, *, security: Object, open_folders: tuple[str, ...] = ()
) -> Object:
    """The container, for a Pod with the volume `cache`, and `auth` where `auth_volumes` makes one.

    Any user may write to the ``open_folders`` of the cache.
    """
    arguments = [
        "stage",
        download.uri,
        f"--cache={_CACHE}",
        "--termination-log=/dev/termination-log",
        *(f"--open-folder={folder}" for folder in open_folders),
    ]
    mounts: list[Object] = [{"mountPath": _CACHE, "name": "cache"}]
    if download.registry_secret:
        arguments.append(f"--registry-auth={_AUTH}/.dockerconfigjson")
        mounts.append({"mountPath": _AUTH, "name": "auth", "readOnly": True})
    made: Object = {
        # The kubelet leaves `$$` as `$`: a source's name is no place for a variable.
        "args": [argument.replace("$", "$$") for argument in arguments],
        "image": download.image,
        "imagePullPolicy": download.pull_policy,
        "name": names.FETCHER_CONTAINER,
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            **security,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return made | ({"env": list(download.env)} if download.env else {})


def auth_volumes(download: Download, *, mode: int) -> list[Object]:
    """The registry's Secret as a volume, where there is one."""
    if not download.registry_secret:
        return []
    secret = {"defaultMode": mode, "secretName": download.registry_secret}
    return [{"name": "auth", "secret": secret}]
