"""Programs under a ServiceAccount of the cluster, as their Pods would run.

A part that is started as the admin proves nothing about the RBAC rules that ship with it.
"""

import pathlib
from collections.abc import Mapping, Sequence

from tests.cluster import certificates, control_plane, layout, programs

# In a command line it stands for the path of the account's kubeconfig.
KUBECONFIG = "{kubeconfig}"


def kubeconfig(
    instance: layout.Instance, account: str, namespace: str
) -> tuple[pathlib.Path, pathlib.PurePosixPath]:
    """A kubeconfig with a fresh token of the account: its path here, and inside the rig.

    The token is bound to the account: it dies with it.
    """
    token = control_plane.kubectl(
        instance, "create", "token", account, f"--namespace={namespace}", "--duration=24h"
    ).strip()
    name = f"{namespace}.{account}.kubeconfig"
    folder = instance.state / "accounts"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / name).write_text(certificates.kubeconfig(instance.state / "pki", {"token": token}))
    return folder / name, layout.STATE / "accounts" / name


def run_as(
    instance: layout.Instance,
    program: str,
    argv: Sequence[str | pathlib.PurePath],
    *,
    account: str,
    namespace: str,
    env: Mapping[str, str] | None = None,
    cwd: pathlib.PurePath = layout.REPOSITORY,
) -> programs.Program:
    """Start a program inside the rig with the account's credentials, and nothing else's.

    It finds them in the environment variable KUBECONFIG, and in its arguments wherever they say
    ``{kubeconfig}``. Service names resolve as in a Pod. The account must exist.
    """
    _, inside = kubeconfig(instance, account, namespace)
    words = [str(word).replace(KUBECONFIG, str(inside)) for word in argv]
    return programs.start(
        instance, program, words, env={"KUBECONFIG": str(inside), **(env or {})}, cwd=cwd
    )
