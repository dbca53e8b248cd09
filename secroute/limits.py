"""Every bound of the product, named with its unit, in one place.

A bound is enforced where data enters (parser, reader, wire codec, config), with an error that names it.
"""

from __future__ import annotations

# --- content -----------------------------------------------------------------------------------------------------
SELECTOR_CHARS_MAX = 65_536
SELECTOR_DEPTH_MAX = 64  # nesting of parentheses and NOT
PREDICATE_NODES_MAX = 20_000
PREDICATE_DISJUNCTS_MAX = 4_096  # after normalisation to DNF
DISJUNCT_CONSTRAINTS_MAX = 256
MESSAGE_ATTRIBUTES_MAX = 256
NAME_BYTES_MAX = 255  # attribute name, UTF-8
VALUE_BYTES_MAX = 4_096  # string value, UTF-8
LIKE_PARTS_MAX = 32  # fixed parts between the % of one LIKE pattern
RECORD_BYTES_MAX = 1_048_576  # one line of a neutral file
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

# --- opaque ------------------------------------------------------------------------------------------------------
SPACE_ID_BYTES = 16
MESSAGE_ID_BYTES = 16
PROFILE_DIGEST_BYTES = 32
EPOCH_MAX = 2**32 - 1
FILTER_BITS_MIN = 64
FILTER_BITS_MAX = 8_192
FILTER_BITS_STEP = 64
WORDS_MAX = FILTER_BITS_MAX // 64
HASHES_MIN = 1
HASHES_MAX = 16
BATCH_MESSAGES_MAX = 65_536
PAYLOAD_BYTES_MAX = 1_048_576  # one sealed payload
BATCH_PAYLOAD_BYTES_MAX = 16 * 1_048_576
SUBSCRIPTION_FILTERS_MAX = 1_024  # encoded disjuncts of one subscription on the wire
