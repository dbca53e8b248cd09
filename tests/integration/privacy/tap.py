"""A TCP proxy between client and router that writes down every byte in both directions."""

from __future__ import annotations

import asyncio
from typing import Self


class Tap:
    """Listens on a port of its own; ``up`` is what the router got, ``down`` what it answered."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._where = (host, int(port))
        self.up = bytearray()
        self.down = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.target = f"127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection(*self._where)
        for source, sink, record in ((reader, back_writer, self.up), (back_reader, writer, self.down)):
            task = asyncio.create_task(self._copy(source, sink, record))
            self._tasks.add(task)

    @staticmethod
    async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, record: bytearray) -> None:
        try:
            while data := await source.read(65_536):
                record += data
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()
