"""The three-interface table of the slides (figure 2 of the SIGCOMM paper), step by step."""

from __future__ import annotations

from secroute.content.dnf import disjuncts
from secroute.content.selector import parse
from secroute.exact import CountingTable, ExactTable, PivotTable
from secroute.exact.counting import CountingEngine
from secroute.exact.reference import Step, forward, selectivity_table

PREDICATES = [
    "dest = 'ATL' AND price < 500 OR stock = 'DYS' AND quantity > 1000 AND price < 500",
    (
        "airline = 'UA' AND orig = 'DEN' AND dest = 'ATL' OR dest = 'JFK' AND price < 200"
        " OR orig = 'DEN' OR airline = 'UA' AND upgrade"
    ),
    "stock = 'MSFT' AND price < 200",
]
INTERFACES = [1, 2, 3]
TABLE = {i: disjuncts(parse(text)) for i, text in zip(INTERFACES, PREDICATES, strict=True)}
MESSAGE = {"airline": "UA", "fare": "T", "price": 248, "orig": "DEN", "dest": "ATL", "upgrade": False}
F11, F12, F21, F23, F24 = (1, 0), (1, 1), (2, 0), (2, 2), (2, 3)


def test_determinants_are_those_of_the_paper() -> None:
    assert selectivity_table(TABLE) == [("price", frozenset({1, 3})), ("stock", frozenset({3}))]


def test_every_step_of_the_slides() -> None:
    after_airline = {F21: 1, F24: 1}
    after_price = {**after_airline, F11: 1, F12: 1}
    after_orig = {**after_price, F21: 2, F23: 1}
    after_dest = {**after_orig, F11: 2}
    assert forward(MESSAGE, frozenset(INTERFACES), TABLE) == [
        Step(None, {}, frozenset({3}), ()),
        Step("airline", after_airline, frozenset({3}), ()),
        Step("fare", after_airline, frozenset({3}), ()),
        Step("price", after_price, frozenset({3}), ()),
        Step("orig", after_orig, frozenset({3, 2}), (2,)),
        # f2.1 is not counted any more: its interface is excluded. All are, so "upgrade" is never looked at.
        Step("dest", after_dest, frozenset({3, 2, 1}), (2, 1)),
    ]


def test_engines_give_the_same_output() -> None:
    nodes = [parse(text) for text in PREDICATES]
    for table in (
        CountingTable.build(nodes, INTERFACES),
        CountingTable.build(nodes, INTERFACES, rounds=0),
        PivotTable.build(nodes, INTERFACES),
        ExactTable.build(nodes, INTERFACES),
    ):
        assert table.match([MESSAGE]).to_lists() == [[1, 2]]
        assert table.match([MESSAGE], allowed={1, 3}).to_lists() == [[1]]
        assert table.match([MESSAGE], allowed=[]).to_lists() == [[]]
        assert table.match([{"stock": "MSFT", "price": 199}]).to_lists() == [[3]]


def test_the_compiled_selectivity_table_is_the_same() -> None:
    table = CountingTable.build([parse(text) for text in PREDICATES], INTERFACES)
    engine = table._segments[0].engine
    assert isinstance(engine, CountingEngine)
    owner = engine.filters.predicate
    found = engine.determinants(owner)
    names = list(engine.filters.dictionary.names)
    entries = [
        (names[name], frozenset(owner + 1 for owner in range(3) if int(bits[0]) >> owner & 1))
        for name, bits in zip(found.name, found.bits, strict=True)
    ]
    assert entries == selectivity_table(TABLE)


def test_the_alert_of_the_introduction() -> None:
    node = parse("\"alert-type\" = 'intrusion' AND severity > 2 OR class = 'alert' AND \"device-type\" = 'web-server'")
    alert = {"class": "alert", "severity": 6, "device-type": "web-server", "alert-type": "hardware failure"}
    assert PivotTable.build([node]).match([alert, {**alert, "device-type": "printer"}]).to_lists() == [[0], []]
