"""Many messages, many results: what publishing in bulk needs. TRUSTED side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def all_of(results: Iterable[Awaitable[None]]) -> None:
    """Wait for all; then raise the first error, if there was one."""
    outcomes = await asyncio.gather(*results, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def each(messages: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """One after the other, whichever kind of source it is."""
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
    else:
        for message in messages:
            yield message
