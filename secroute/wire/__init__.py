"""The codec between plain values and protobuf, used on both sides of the trust line.

``frames`` names what a session says, ``client_frames`` and ``router_frames`` encode and decode it, ``columns`` handles
opaque batches and filters. Every bound is checked here, before anything is allocated. No gRPC in this package except
in ``_generated``, which is made by ``python -m secroute.wire.generate``.
"""
