"""HTTP from the test's own process into the rig's network, for urllib3 and what builds on it.

Only the socket is made inside, so neither the thread nor the process has to move.
"""

import socket
from collections.abc import Callable
from typing import Any

import requests
import requests.adapters
import urllib3
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions

Dial = Callable[[str, int, float | None], socket.socket]


def route(manager: urllib3.PoolManager, dial: Dial) -> None:
    """Have a pool manager open all its connections with ``dial(host, port, timeout)``."""

    class Http(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _open(self, dial)

    class Https(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _open(self, dial)

    class HttpPool(urllib3.connectionpool.HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(urllib3.connectionpool.HTTPSConnectionPool):
        ConnectionCls = Https

    manager.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}


def session(dial: Dial) -> requests.Session:
    """A requests session that lives in the rig's network."""
    made = requests.Session()
    # Proxies of this machine do not reach into the rig.
    made.trust_env = False
    for scheme in ("http://", "https://"):
        made.mount(scheme, _Adapter(dial))
    return made


class _Adapter(requests.adapters.HTTPAdapter):
    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        route(self.poolmanager, self._dial)


def _open(connection: urllib3.connection.HTTPConnection, dial: Dial) -> socket.socket:
    wanted = connection.timeout
    timeout = wanted if isinstance(wanted, int | float) else None
    try:
        return dial(connection.host, connection.port or 80, timeout)
    except TimeoutError as e:
        raise urllib3.exceptions.ConnectTimeoutError(connection, str(e)) from e
    except OSError as e:
        raise urllib3.exceptions.NewConnectionError(connection, str(e)) from e
