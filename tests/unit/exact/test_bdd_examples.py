"""The worked subscriptions of the ICSE paper, its paradox of semantic adequacy, and what is refused."""

from __future__ import annotations

import pytest

from secroute.content.predicate import And, Node, Or
from secroute.content.selector import parse
from secroute.errors import InputError, LimitError
from secroute.exact import BddTable
from secroute.exact.semantics import EventSchema

SALES = EventSchema(
    {"company": "string", "product": "string", "price": "number"}, {"company": "", "product": "", "price": -1}
)
TOTAL = {"company": "IBM", "product": "PC AT, 20 Mhz, 256 KB RAM", "price": 5000}
PARTIAL = {"company": "Future Inc.", "product": "100 GHz Super PC"}
BARGAIN = (
    "company IN ('IBM', 'Dell', 'Siemens') AND product LIKE '%PC%' AND product LIKE '%1000 Mhz%' AND price <= 1000"
)
LETTERS = EventSchema({"x": "bool", "y": "bool", "z": "bool"})


def test_sales_announcements() -> None:
    """Examples 3 and 4."""
    texts = [BARGAIN, "price >= 5000 AND company = 'IBM'", "product LIKE '%PC%'"]
    strict = BddTable.build([parse(text) for text in texts], "strict", SALES)
    offer = {"company": "Dell", "product": "PC, 1000 Mhz", "price": 1000}
    assert strict.match([TOTAL, PARTIAL, offer]).to_lists() == [[1, 2], [2], [0, 2]]
    simple = BddTable.build([parse(text) for text in texts], "simple", SALES)
    assert simple.match([TOTAL, offer]).to_lists() == [[1, 2], [0, 2]]
    with pytest.raises(InputError, match="total messages"):
        simple.match([PARTIAL])


def test_the_paradox_of_semantic_adequacy() -> None:
    """Example 5: Alice and Bob join their subscriptions; the result is a tautology, and still asks for a price."""
    alice, bob = parse("price < 1000"), parse("price > 500")
    joined = Or((alice, bob))
    table = BddTable.build([alice, bob, joined], "strict", SALES)
    assert table.match([{"price": 10}, {"price": 700}, {"price": 9000}]).to_lists() == [[0, 2], [0, 1, 2], [1, 2]]
    # In the BDD the joint subscription is the constant true; only the syntactic notion keeps this message out.
    assert table.match([{"company": "IBM"}]).to_lists() == [[]]
    alone = BddTable.build([joined], "strict", SALES)
    assert alone.nodes == 1
    assert alone.match([PARTIAL, TOTAL]).to_lists() == [[], [0]]
    # The same attribute under a tautology: y AND (x OR NOT x) asks for x as well.
    both = BddTable.build([parse("y AND (x OR NOT x)")], "strict", LETTERS)
    assert both.match([{"y": True}, {"y": True, "x": False}]).to_lists() == [[], [0]]


def test_defaults_tell_whether_an_attribute_is_there() -> None:
    """Example 6 and the remark on DeSL."""
    table = BddTable.build([parse("price != -1"), parse("price < 0"), parse("company = ''")], "default", SALES)
    assert table.match([TOTAL, PARTIAL, {}]).to_lists() == [[0], [1], [1, 2]]


def test_shared_nodes() -> None:
    """Examples 8 and 9: y OR z is there once, for three roots. CUDD's edges make one terminal of the paper's two."""
    one = BddTable.build([parse("x AND (y OR z)")], "simple", LETTERS)
    assert one.nodes - 1 == 3
    shared = BddTable.build([parse("x AND (y OR z)"), parse("NOT x AND (y OR z)"), parse("y OR z")], "simple", LETTERS)
    assert shared.nodes - 1 == 4
    truth = [{"x": x, "y": y, "z": z} for x in (True, False) for y in (True, False) for z in (True, False)]
    expected = [
        [
            i
            for i, b in enumerate((m["x"] and (m["y"] or m["z"]), not m["x"] and (m["y"] or m["z"]), m["y"] or m["z"]))
            if b
        ]
        for m in truth
    ]
    assert shared.match(truth).to_lists() == expected


def test_query_bdd_of_alice_and_bob() -> None:
    """Example 11: three atoms, three nodes; the test of the price is shared."""
    texts = ["price < 1000 AND company LIKE '%IBM%'", "price < 1000 AND company LIKE '%Siemens%'"]
    table = BddTable.build([parse(text) for text in texts], "simple", SALES)
    assert table.nodes - 1 == 3


def test_restriction_uses_what_atoms_imply() -> None:
    """x = 5 implies x < 9: the conjunction is the first alone."""
    node = parse("price = 5 AND price < 9 AND company = 'IBM'")
    assert BddTable.build([node], "strict", SALES).nodes == 3
    assert BddTable.build([node], "strict", SALES, restrict=False).nodes == 4


def _exploding(pairs: int) -> Node:
    """OR of x_i AND y_i with all x before all y: exponentially many nodes in that order."""
    return Or(tuple(And((parse(f"x{i:02} = 1"), parse(f"y{i:02} = 1"))) for i in range(pairs)))


def test_an_exploding_subscription_is_refused_and_leaves_the_table_as_it_was() -> None:
    table = BddTable.build([parse("a = 1")])
    table.add([_exploding(3)])
    before = table.nodes
    # All atoms of the bad one are known in the bad order first.
    table.add([parse(" OR ".join(f"{v}{i:02} = 1" for v in "xy" for i in range(40)))])
    before = table.nodes
    with pytest.raises(LimitError, match=r"subscription s9: its BDD grows beyond 100000 nodes"):
        table.add([parse("b = 2"), _exploding(40)], ["s8", "s9"])
    assert len(table) == 3
    assert table.nodes == before
    assert table.match([{"a": 1}, {"b": 2}]).to_lists() == [[0], []]
    # What the refused ones declared is given back, and taken by others.
    table.add([parse("c = 3 AND c < 9"), parse("b = 2 OR d = 4")])
    assert table.match([{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]).to_lists() == [[0], [4], [3], [4]]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="'price' is a number, compared with a string"):
        BddTable.build([parse("price = 'cheap'")], "strict", SALES)
    with pytest.raises(InputError, match=r"subscription s1: unknown attribute 'colour'"):
        BddTable.build([parse("colour = 'red'")], "simple", SALES, ids=["s1"])
    with pytest.raises(InputError, match="default for 'price' is a string"):
        EventSchema({"price": "number"}, {"price": "none"})
    with pytest.raises(InputError, match="needs a default for every attribute"):
        BddTable("default", EventSchema({"price": "number"}))
    with pytest.raises(InputError, match="'price' is a number, a message has another kind"):
        BddTable.build([parse("price = 1")], "strict", SALES).match([{"price": "one"}])
    with pytest.raises(InputError, match="unknown attribute 'colour'"):
        BddTable.build([parse("price = 1")], "strict", SALES).match([{"colour": "red"}])
    with pytest.raises(InputError, match="takes no schema"):
        BddTable("open", SALES)
    with pytest.raises(InputError, match="2 subscriptions but 1 ids"):
        BddTable.build([parse("a = 1"), parse("a = 2")], ids=["s1"])
    with pytest.raises(InputError, match="no semantics"):
        BddTable("kleene")  # type: ignore[arg-type]
