"""Benchmarks behind ``secroute bench``. Speed is measured within one run; ratios beside absolute figures."""
