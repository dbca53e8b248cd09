"""Every bound of the product, named with its unit, in one place.

A bound is enforced where data enters (parser, reader, wire codec, config), with an error that names it.
"""

from __future__ import annotations

# --- content -----------------------------------------------------------------------------------------------------
SELECTOR_CHARS_MAX = 65_536
SELECTOR_DEPTH_MAX = 64  # nesting of AND, OR and NOT
PREDICATE_NODES_MAX = 20_000
PREDICATE_DISJUNCTS_MAX = 4_096  # after normalisation to DNF
DISJUNCT_CONSTRAINTS_MAX = 256
MESSAGE_ATTRIBUTES_MAX = 256
NAME_BYTES_MAX = 255  # attribute name, UTF-8
VALUE_BYTES_MAX = 4_096  # string value, UTF-8
LIKE_PARTS_MAX = 32  # fixed parts between the % of one LIKE pattern
RECORD_BYTES_MAX = 8 * 1_048_576  # one line of a neutral file: the largest message, every character escaped, fits
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

# --- encoding ----------------------------------------------------------------------------------------------------
SCHEMA_ATTRIBUTES_MAX = 1_024
SCHEMA_LEVELS_MAX = 32  # buckets of one numeric domain, as a power of two
LADDER_LENGTH_MAX = 256  # characters of one prefix or suffix step
LADDER_STEPS_MAX = 32
QGRAM_LENGTH_MAX = 8
ORDER_BYTES_MAX = 4
COVER_DISJUNCTS_MAX = 64
HARDENINGS_MAX = 8
EXPLAIN_TOKENS_MAX = 1_000_000  # tokens of a message that `secroute explain` reckons with
PROFILE_BYTES_MAX = 262_144
ENCODER_CACHE_BYTES = 16 * 1_048_576  # bits of recent values that one encoder remembers
ENCODE_CHUNK_MESSAGES = 4_096  # messages whose distinct tokens are hashed together
HARDEN_CHUNK_MESSAGES = 512  # messages hardened together; their bits are unpacked
COVER_PIECES_MAX = 64  # intervals of one level that an exact cover may need before it is widened

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

# --- keyring and payload sealing ---------------------------------------------------------------------------------
KEY_BYTES = 32
KEY_FILE_BYTES_MAX = 64 * 1_048_576
GRANT_BYTES_MAX = 32 * 1_048_576
GRANT_EPOCHS_MAX = 64
KEYRING_EPOCHS_MAX = 4_096
KEYRING_MEMBERS_MAX = 16_384
PASSPHRASE_BYTES_MAX = 1_024
SCRYPT_LOG2_N_MIN = 14
SCRYPT_LOG2_N_MAX = 20  # 1 GiB; a file that asks for more is not one of ours
KEY_NAME_BYTES_MAX = 255  # names of spaces, members, durable subscriptions, UTF-8
KEY_FILE_LOCK_WAIT_S = 10.0
OVERLAP_S_MAX = 366 * 86_400
SEAL_SESSION_MESSAGES_MAX = 2**32  # messages under one subkey
SEAL_SESSIONS_CACHED_MAX = 4_096  # subkeys an opener remembers per scope
REPLAY_WINDOW_MESSAGES = 4_096  # how far behind the newest message of a session a late one may come
REPLAY_SESSIONS_MAX = 16_384

# --- wire, router ------------------------------------------------------------------------------------------------
FRAME_BYTES_MAX = 24 * 1_048_576  # one gRPC message; a batch that needs more is sent in parts
SESSION_ID_BYTES = 16
ROUTER_ID_BYTES = 16
RESUME_TOKEN_BYTES = 32
DURABLE_NAME_BYTES = 16
SOFTWARE_CHARS_MAX = 128
ERROR_CODE_CHARS_MAX = 64
ERROR_CHARS_MAX = 1_024
SUBSCRIBE_SCOPES_MAX = 16  # scopes named by one Subscribe or Unsubscribe
SESSION_SUBSCRIPTIONS_MAX = 100_000
ACK_RUNS_MAX = 65_536
DELIVERY_SLICES_MAX = 4_096
PUBLISH_RESULTS_MAX = 65_536
CREDIT_MESSAGES_MAX = 1_048_576  # outstanding for one subscription
CREDIT_BYTES_MAX = 256 * 1_048_576
SEQUENCE_MAX = 2**63 - 1
TTL_MS_MAX = 30 * 24 * 3_600_000
ACK_TIMEOUT_MS_MAX = 24 * 3_600_000
TRIES_MAX = 1_000

# --- overlay -----------------------------------------------------------------------------------------------------
OVERLAY_ROUTERS_MAX = 4_096
LINK_WEIGHT_MAX = 65_535
STAMP_BYTES = 16  # names one state of the network
LINK_NONCE_BYTES = 32
PAGE_FILTERS_MAX = 1_024  # filters of one advertised page
ORIGIN_PAGES_MAX = 16_384  # pages of one router
TRANSFER_WINDOW = 256  # batches that may be on a link without an answer
SIM_RECEIVERS_MAX = 1_000_000
SIM_MESSAGES_MAX = 1_000_000

# --- exact -------------------------------------------------------------------------------------------------------
BDD_NODES_MAX = 100_000  # of one subscription
BDD_STEP_NODES_MAX = 4_000_000  # worst case of one AND or OR: the product of the sizes of its operands
ROUTER_LINKS_MAX = 1_024
LINK_FILTERS_MAX = 1_000_000  # advertised filters that one neighbour may make a router keep

# engine
TABLE_FILTERS_MAX = 2**27  # filters of one forwarding table
