"""The routing schemes behind one interface; PIF is the default. A network uses one scheme throughout.

UNTRUSTED side, pure. See ``docs/routing.md`` for what each costs and what it shows to the routers on the way.
"""

from __future__ import annotations

from secroute.errors import OverlayError
from secroute.overlay.paths import Trees
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes.drp import Drp
from secroute.overlay.schemes.interface import Scheme
from secroute.overlay.schemes.ips import Ips
from secroute.overlay.schemes.pif import Pif
from secroute.overlay.schemes.psf import Psf

SCHEMES: dict[str, type[Pif] | type[Psf] | type[Ips] | type[Drp]] = {"pif": Pif, "psf": Psf, "ips": Ips, "drp": Drp}

__all__ = ["SCHEMES", "Drp", "Ips", "Pif", "Psf", "Scheme", "make_scheme", "require_one_scheme"]


def make_scheme(name: str, trees: Trees, predicates: Predicates) -> Scheme:
    """The scheme of that name over these trees and predicates."""
    if name not in SCHEMES:
        raise OverlayError(f"no scheme {name[:32]!r}: it must be one of {', '.join(SCHEMES)}")
    return SCHEMES[name](trees, predicates)


def require_one_scheme(names: dict[int, str]) -> str:
    """Raise unless all routers (number -> scheme) use the same scheme; return it."""
    schemes = sorted(set(names.values()))
    if len(schemes) != 1:
        one = {scheme: min(u for u, name in names.items() if name == scheme) for scheme in schemes}
        where = ", ".join(f"{scheme} at router {u}" for scheme, u in one.items())
        raise OverlayError(f"a network uses one scheme, this one mixes {where or 'none'}")
    return schemes[0]
