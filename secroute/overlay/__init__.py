"""The overlay: how routers that nobody has to trust find paths and carry messages along them.

UNTRUSTED side, pure: no sockets, no clock, no ambient randomness. It sees router ids, weights and encoded filters.
"""
