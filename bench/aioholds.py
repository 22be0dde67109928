"""Holding streams in the way that one would write first, with aiohttp. A peer, not a part.

``python -m bench.aioholds PORT``, as ``bench.holds`` starts it: a heartbeat every 10 s for each
stream, and 429 above 2000 of them.
"""

import asyncio
import sys

import uvloop
from aiohttp import web

QUEUE = 2000
BEAT_SECONDS = 10.0


class _Holds:
    def __init__(self) -> None:
        self._held = 0

    async def hold(self, request: web.Request) -> web.StreamResponse:
        if self._held >= QUEUE:
            error = {"message": "the queue is full", "type": "requests", "code": "queue_full"}
            return web.json_response({"error": error}, status=429, headers={"Retry-After": "1"})
        self._held += 1
        try:
            await request.json()
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            while True:
                await response.write(b": keep-alive\n\n")
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            self._held -= 1


def main() -> None:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", _Holds().hold)
    web.run_app(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        handler_cancellation=True,
        backlog=4096,
        loop=uvloop.new_event_loop(),
        print=None,
    )


if __name__ == "__main__":
    main()
