"""A slow session's overflow: an unnamed temporary file of parcels, first in, first out. UNTRUSTED side, I/O.

It lives and dies with its session; nothing that must survive a crash is here.
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
from google.protobuf.message import DecodeError

from secroute.errors import SecrouteError, StoreError
from secroute.router.parcels import Parcel
from secroute.wire._generated.opaque_pb2 import Batch
from secroute.wire.columns import batch_from_pb, batch_to_pb

_HEADER = struct.Struct("<QQ?")  # bytes of the batch, of the expiry column, spooled


class SpillFile:
    """Parcels on disk; the file starts over whenever it has been read to its end."""

    def __init__(self, folder: Path) -> None:
        self.nbytes = 0
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._read = 0
        self._end = 0

    def push(self, parcel: Parcel) -> None:
        """Append a parcel; raises ``OSError`` if the disk will not have it."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - lives as long as the session
        data = batch_to_pb(parcel.own().source).SerializeToString()
        expires = b"" if parcel.expires is None else parcel.expires.tobytes()
        record = _HEADER.pack(len(data), len(expires), parcel.spooled) + data + expires
        self._file.seek(self._end)
        # A short write (disk full) raises on the next one; until then `_end` is where it was, so nothing is half there.
        written = self._file.write(record)
        if written != len(record):
            raise OSError(f"spill: {written} of {len(record)} bytes written")
        self._end += len(record)
        self.nbytes = self._end - self._read

    def pop(self) -> Parcel | None:
        """The oldest parcel, or nothing; raises ``StoreError`` if it cannot be read back."""
        if self._file is None or self._read == self._end:
            return None
        try:
            self._file.seek(self._read)
            size, expiry_size, spooled = _HEADER.unpack(self._file.read(_HEADER.size))
            batch = batch_from_pb(Batch.FromString(self._file.read(size)))
            expires = np.frombuffer(self._file.read(expiry_size), np.float64) if expiry_size else None
        except (OSError, struct.error, ValueError, SecrouteError, DecodeError) as error:
            raise StoreError(f"what was spilled to disk cannot be read back ({type(error).__name__})") from None
        self._read += _HEADER.size + size + expiry_size
        if self._read == self._end:
            self._read = self._end = 0
            self._file.truncate(0)
        self.nbytes = self._end - self._read
        return Parcel(batch, None, expires, spooled)

    def close(self) -> None:
        """Drop everything."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._read = self._end = self.nbytes = 0
