"""TRUSTED, pure: messages, predicates, the selector language and the plain oracle that defines what matching means."""

from secroute.content.dnf import Conjunction, disjuncts
from secroute.content.model import Message, Value, check_name, check_value
from secroute.content.oracle import evaluate, matches
from secroute.content.predicate import And, Constraint, Node, Not, Op, Or, Pattern, like
from secroute.content.render import render
from secroute.content.selector import parse

__all__ = [
    "And",
    "Conjunction",
    "Constraint",
    "Message",
    "Node",
    "Not",
    "Op",
    "Or",
    "Pattern",
    "Value",
    "check_name",
    "check_value",
    "disjuncts",
    "evaluate",
    "like",
    "matches",
    "parse",
    "render",
]
