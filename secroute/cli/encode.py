"""``secroute encode messages|predicates``: neutral files to opaque ``.npz`` files.

What a router may see goes to the .npz; the names of interfaces, which mean something, go to a trusted side file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from secroute.content.files import PredicateRecord
    from secroute.encoding.encoder import Encoder
    from secroute.opaque import Words

T = TypeVar("T")
_CHUNK = 4_096


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``secroute encode``."""
    commands = parser.add_subparsers(required=True, metavar="WHAT")
    for what, run in (("messages", run_messages), ("predicates", run_predicates)):
        command = commands.add_parser(what, help=f"encode {what}")
        command.add_argument("file", metavar="FILE", help=f"{what}, JSONL or Parquet")
        command.add_argument("--out", required=True, metavar="FILE.npz", help="opaque output; never overwritten")
        keys = command.add_mutually_exclusive_group()
        keys.add_argument("--keyring", metavar="FILE", help="encode under this keyring's publishing epoch")
        keys.add_argument("--schema", metavar="FILE", help="encode under a throw-away key with this schema")
        command.add_argument(
            "--passphrase-file", type=Path, metavar="FILE", help="passphrase of a sealed keyring (mode 0600)"
        )
        command.set_defaults(run=run)
    command.add_argument("--match-all", action="store_true", help="allow predicates that leave no bits")


def _encoder(args: argparse.Namespace) -> Encoder:
    from secroute.encoding.encoder import Encoder
    from secroute.encoding.profile import Profile, load_profile
    from secroute.keyring.tokens import throwaway_token_keys

    if args.keyring:
        from secroute.cli.keys import passphrase_of
        from secroute.keyring import Keyring

        keys = Keyring.load(args.keyring, passphrase_of(args)).publishing(time.time())
        return Encoder(keys.profile, keys)
    profile = load_profile(args.schema) if args.schema else Profile.default()
    return Encoder(profile, throwaway_token_keys(profile))


def _progress(items: Iterable[T], what: str) -> Iterator[list[T]]:
    """Chunks of the items, with a progress line on a terminal."""
    source = iter(items)
    if not sys.stderr.isatty():
        while chunk := list(itertools.islice(source, _CHUNK)):
            yield chunk
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description} {task.completed}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        while chunk := list(itertools.islice(source, _CHUNK)):
            yield chunk
            bar.advance(task, len(chunk))


def _new_file(path: Path) -> Path:
    from secroute.errors import InputError

    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already; it is not overwritten")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no directory {path.parent}")
    return path


def _save(path: Path, **arrays: Any) -> None:
    """Write whole or not at all, and over nothing: a link, unlike a rename, fails where a file has appeared."""
    import numpy as np

    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as part:
        np.savez(part, **arrays)
        part.flush()
        os.fsync(part.fileno())
        os.chmod(part.name, 0o644)  # opaque: a router may read it
        os.link(part.name, path)


def run_messages(args: argparse.Namespace) -> int:
    """Encode a message file: ``bits`` and random ``ids``."""
    import numpy as np

    from secroute import limits
    from secroute.content.files import read_messages
    from secroute.encoding.encoder import SEED_BYTES
    from secroute.output import emit_json

    out = _new_file(Path(args.out))
    encoder = _encoder(args)
    parts = [np.zeros((0, encoder.profile.words), np.uint64)]
    for chunk in _progress(read_messages(args.file), "messages encoded"):
        parts.append(encoder.encode_messages(chunk, os.urandom(SEED_BYTES)))
    bits = np.concatenate(parts)
    ids = np.frombuffer(os.urandom(len(bits) * limits.MESSAGE_ID_BYTES), np.uint8).reshape(len(bits), -1)
    _save(out, bits=bits, ids=ids)
    emit_json({"messages": len(bits), "bits": encoder.profile.bits, "profile": encoder.profile.digest.hex()})
    return 0


def _encode_located(
    encoder: Encoder, records: Sequence[PredicateRecord], args: argparse.Namespace
) -> tuple[Words, npt.NDArray[np.int64]]:
    """Encode predicates together; a fault, or a coarsening, is told with the line it belongs to."""
    import numpy as np

    from secroute.encoding.encoder import CoarsenedPredicateWarning
    from secroute.errors import EmptyFilterError, FileFormatError, InputError
    from secroute.output import say

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", CoarsenedPredicateWarning)
            return encoder.encode_predicates([r.predicate for r in records], match_all=args.match_all)
    except (InputError, EmptyFilterError, CoarsenedPredicateWarning) as error:
        if len(records) == 1 and not isinstance(error, CoarsenedPredicateWarning):
            raise FileFormatError(args.file, str(error), records[0].line) from None
        if len(records) == 1:
            say(f"{args.file}:{records[0].line}: {error}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoarsenedPredicateWarning)
                return encoder.encode_predicates([records[0].predicate], match_all=args.match_all)
    # Halves find the line in a few steps.
    middle = len(records) // 2
    left, right = (_encode_located(encoder, part, args) for part in (records[:middle], records[middle:]))
    return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1] + middle])


def run_predicates(args: argparse.Namespace) -> int:
    """Encode a predicate file: ``bits``, random ``ids``, ``owners``; interface names go to a trusted side file."""
    import numpy as np

    from secroute import limits
    from secroute.content.files import read_predicates
    from secroute.output import emit_json

    out = _new_file(Path(args.out))
    side = _new_file(out.with_suffix(".trusted.jsonl"))
    encoder = _encoder(args)
    bits, owners, names, first = [np.zeros((0, encoder.profile.words), np.uint64)], [np.zeros(0, np.int64)], [], 0
    for chunk in _progress(read_predicates(args.file), "predicates encoded"):
        rows, whose = _encode_located(encoder, chunk, args)
        bits.append(rows)
        owners.append(whose + first)
        names += [{"row": first + i, "id": r.id, "interface": r.interface} for i, r in enumerate(chunk)]
        first += len(chunk)
    ids = np.frombuffer(os.urandom(first * limits.MESSAGE_ID_BYTES), np.uint8).reshape(first, -1)
    with os.fdopen(os.open(side, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as lines:
        try:
            lines.writelines(json.dumps(name, ensure_ascii=False) + "\n" for name in names)
            _save(out, bits=np.concatenate(bits), ids=ids, owners=np.concatenate(owners))
        except BaseException:
            side.unlink()
            raise
    filters = sum(map(len, bits))
    emit_json({"predicates": first, "filters": filters, "bits": encoder.profile.bits, "side_file": side.name})
    return 0
