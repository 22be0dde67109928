"""The gateway that one would write first: aiohttp's server and its client. A peer, not a part.

``python -m bench.aioproxy PORT TARGET``, as ``bench.gateway`` starts it.
"""

import sys

import aiohttp
import uvloop
from aiohttp import web

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"}


async def _forward(request: web.Request) -> web.StreamResponse:
    session = request.app[_SESSION]
    headers = [(n, v) for n, v in request.headers.items() if n.lower() not in _HOP_BY_HOP]
    url = request.app[_TARGET] + request.raw_path
    data = await request.read()
    async with session.request(request.method, url, headers=headers, data=data) as upstream:
        kept = [(n, v) for n, v in upstream.headers.items() if n.lower() not in _HOP_BY_HOP]
        response = web.StreamResponse(status=upstream.status, headers=dict(kept))
        await response.prepare(request)
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
        return response


_SESSION = web.AppKey("session", aiohttp.ClientSession)
_TARGET = web.AppKey("target", str)


async def _sessions(app: web.Application):  # type: ignore[no-untyped-def]
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    ) as session:
        app[_SESSION] = session
        yield


def main() -> None:
    port, target = int(sys.argv[1]), sys.argv[2]
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app[_TARGET] = target
    app.cleanup_ctx.append(_sessions)
    app.router.add_route("*", "/{path:.*}", _forward)
    loop = uvloop.new_event_loop()
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, loop=loop, print=None)


if __name__ == "__main__":
    main()
