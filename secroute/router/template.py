"""The commented configuration that ``secroute router init`` writes. A test compares it with the defaults."""

TEMPLATE = """\
# secroute router. Every key is shown with its default; delete what you do not change.
# Relative file names are relative to this file. SIGHUP reads it again (clients, pins, limits, certificates).

listen = "127.0.0.1:7400"          # host:port; port 0 takes a free one
metrics_listen = "127.0.0.1:9464"  # Prometheus; "" switches it off

[tls]                              # required, unless the router is started with --insecure on loopback
certificate = "router.crt"
key = "router.key"
client_ca = "ca.crt"               # clients must show a certificate that this CA signed

[store]
path = "router-store/store.db"
sync = "full"                      # "normal": faster, but a power cut may lose what was acknowledged last
mib_max = 16384                    # beyond it publishers get store-full

[sessions]
hello_timeout_s = 10.0
keepalive_s = 20                   # a stream that is silent for twice as long is ended (it may resume)
resume_grace_s = 30
publish_window_batches = 1024      # without a result, per session
publish_window_messages = 65536
publish_window_mib = 32
slow_consumer = "spill"            # when its queue_mib is full: "spill" to disk, or "slow" down its publishers
slow_timeout_s = 30.0              # "slow": how long results are held back at most
spill_mib_max = 1024               # beyond it: an explicit gap
frame_kib = 1024                   # deliveries are sent in frames of about this size

[durable]
ack_timeout_s = 30.0               # delivered again after this time (clients may ask for another)
tries_max = 8                      # then to the dead letters (clients may ask for another)
overflow = "refuse"                # full queue: "refuse" the publisher's batch, or record a "gap" and go on
queue_messages_max = 1000000
queue_mib_max = 1024
spool_messages_max = 1000000       # kept unmatched for a subscription that missed a rotation; beyond it: a gap
spool_mib_max = 1024
memory_mib_max = 128               # fresh messages kept in memory beside the disk

[guard]                            # duplicates of at-least-once messages
window_s = 600.0
keys_max = 2000000

[limits]
sessions_max = 10000
message_ttl_s_max = 2592000.0
message_ttl_s_default = 0.0        # 0: messages do not expire
epochs_max = 1024                  # epochs, of all spaces together, in use at a time
epoch_idle_s = 3600.0              # an epoch nobody used for this long is dropped
drain_s = 10                       # how long SIGTERM waits for clients to leave
batch_linger_ms = 0.0              # wait this long for more messages before matching

[overlay]                          # for a router with neighbours
name = ""                          # this router's name, as in its certificate
scheme = "pif"                     # or "psf", "ips", "drp"; all routers of a network use the same
queue_mib = 1024                   # at-least-once messages on their way to other routers; beyond it publishers wait
forget_s = 3600.0                  # what is kept for a router that went away is given up after this time

# Neighbours, by the names of their certificates; one side of each link names the other's address and calls it.
# [[neighbour]]
# name = "router-2"
# address = "192.0.2.7:7400"
# weight = 1

# Who may do what, by the common name of the certificate; the first match counts, no match is refused.
[[client]]
name = "*"                         # shell pattern
may = ["publish", "subscribe"]     # and "admin"
spaces = ["*"]                     # hexadecimal space ids, or "*"
sessions_max = 64
filters_max = 1000000
durable_max = 256
mib_per_s = 0.0                    # published; 0: no limit
queue_mib = 32                     # memory for what waits for one session

# The profile digest of an epoch is the first one seen, unless it is pinned here.
# [[pin]]
# space = "00112233445566778899aabbccddeeff"
# epoch = 1
# profile = "(64 hexadecimal digits)"
"""
