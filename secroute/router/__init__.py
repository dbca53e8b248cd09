"""The router node: sessions, matching, durable store, admin. UNTRUSTED side; it never holds a content key."""
