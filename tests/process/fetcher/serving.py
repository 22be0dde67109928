"""Servers on loopback that run while a test needs them."""

import http.server
import threading
import typing


class Serving:
    """Each of `servers` answers in a thread of its own, within the `with`."""

    def __init__(self, *servers: http.server.ThreadingHTTPServer) -> None:
        self._servers = servers

    def __enter__(self) -> typing.Self:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
