"""Sizes of the corpus that the audit's tests run on."""

from tests.cases import cases

MESSAGES, PREDICATES = cases(1_500, 20_000), cases(300, 3_000)
