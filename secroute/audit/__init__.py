"""TRUSTED side, Spark: what false positives cost and what a router learns, measured over corpora of any size.

Jobs run on DataFrames with Arrow batches; the kernels of ``engine`` and ``exact`` run in the workers; pairs are never
materialised. No key is ever in a closure, a broadcast, a plan or a setting: workers read a 0600 file by its path.
"""
