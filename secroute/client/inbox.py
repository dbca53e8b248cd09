"""Receiving: deliveries are opened, checked for repeats, matched exactly, and handed to whoever wants them.

TRUSTED. Nothing a router sends is believed: what does not open is counted and dropped (a durable one goes to the
dead-letter queue), what no predicate wants is a false positive, what came before is acked again and not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from secroute.client.body import decode_body
from secroute.client.epochs import EpochBook
from secroute.client.ledger import Ledger, Receipt
from secroute.client.stats import ClientStats
from secroute.client.subscription import ReceivedMessage, Settlement, Subscription
from secroute.encoding.seal import Opened
from secroute.errors import InputError, ProfileMismatchError, ReplayError, ReplayWindowError, SealError
from secroute.wire.frames import Runs, Slice, Verdict

_log = logging.getLogger("secroute.client")


class Inbox:
    """Takes slices apart."""

    def __init__(self, book: EpochBook, stats: ClientStats) -> None:
        self._book, self._stats = book, stats

    def take(self, part: Slice, ledger: Ledger, subscriptions: list[Subscription]) -> None:
        """Handle one slice for the subscriptions of its endpoint."""
        batch = part.batch
        self._stats.received += len(batch)
        width = batch.bits.shape[1] * 8
        sizes = (batch.offsets[1:] - batch.offsets[:-1] + width).tolist()
        receipts = [ledger.receipt(number, size) for number, size in zip(_numbers(part.sequences), sizes, strict=True)]
        try:
            results = self._book.open(batch)
        except ProfileMismatchError as error:
            results = [SealError(str(error))] * len(batch)
        if results is None:
            self._stats.unknown_epoch += len(batch)
            _log.warning("messages of an epoch that the keyring does not hold", extra={"epoch": batch.scope.epoch})
            for receipt in receipts:
                ledger.leave(receipt)
            return
        for receipt, opened in zip(receipts, results, strict=True):
            self._one(part, ledger, subscriptions, receipt, opened)

    def _one(
        self,
        part: Slice,
        ledger: Ledger,
        subscriptions: list[Subscription],
        receipt: Receipt,
        opened: Opened | SealError,
    ) -> None:
        if isinstance(opened, SealError):
            self._reject(ledger, receipt, opened)
            return
        try:
            message, payload = decode_body(opened.body)
            ledger.duplicates.admit(opened)
        except ReplayWindowError as error:
            self._reject(ledger, receipt, error)
            return
        except ReplayError:
            self._stats.duplicates += 1
            ledger.repeat(receipt)
            return
        except InputError as error:
            self._reject(ledger, receipt, error)
            return
        takers = [each for each in subscriptions if each.wants(message.attributes)]
        if not takers:
            if part.spooled:
                self._stats.spooled_unwanted += 1
            else:
                self._stats.false_positives += 1
            ledger.settle(receipt)
            return
        ledger.open(receipt)
        settlement = Settlement(ledger, receipt, (opened.publisher, opened.session, opened.sequence), len(takers))
        self._stats.delivered += len(takers)
        self._stats.redelivered += part.redelivered
        for taker in takers:
            taker.offer(
                ReceivedMessage(
                    message.attributes,
                    payload,
                    opened.publisher,
                    opened.signed,
                    part.redelivered,
                    part.batch.scope.epoch,
                    taker,
                    settlement,
                )
            )

    def _reject(self, ledger: Ledger, receipt: Receipt, error: Exception) -> None:
        self._stats.rejected += 1
        _log.warning("a delivery was rejected: %s", error)
        ledger.settle(receipt, Verdict.DEAD if ledger.subscription else Verdict.DONE)


def _numbers(runs: Runs) -> Iterator[int]:
    for first, count in runs:
        yield from range(first, first + count)
