"""TRUSTED, pure: profile -> tokens -> keyed Bloom bits; hardening; payload sealing. The law: no false negatives."""
