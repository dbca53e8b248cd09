"""The named networks are what their names say."""

from __future__ import annotations

import pytest

from secroute.errors import OverlayError
from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths
from secroute.overlay.topology import generate


def degrees(graph: Graph) -> list[int]:
    return [len(some) for some in graph.neighbours]


def test_shapes() -> None:
    assert degrees(generate("ring:5")) == [2] * 5
    assert degrees(generate("line:4")) == [1, 2, 2, 1]
    assert degrees(generate("star:5")) == [4, 1, 1, 1, 1]
    assert degrees(generate("tree:7,2")) == [2, 3, 3, 1, 1, 1, 1]
    assert dict(generate("ring:2").weights) == {(0, 1): 1}
    assert len(generate("ring:1")) == 1


def test_power_law_is_connected_seeded_and_has_hubs() -> None:
    graph = generate("powerlaw:200", seed=3)
    assert graph.weights == generate("powerlaw:200", seed=3).weights
    assert graph.weights != generate("powerlaw:200", seed=4).weights
    assert ShortestPaths(graph).subtree(0, 0) == (1 << 200) - 1
    assert max(degrees(graph)) > 5 * sorted(degrees(graph))[100]


@pytest.mark.parametrize(
    "spec", ["ring", "ring:", "ring:0", "ring:-3", "ring:5,2", "tree:5", "cube:3", "ring:99999", "ring:²"]
)
def test_a_name_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(OverlayError, match="must be"):
        generate(spec)


def test_a_graph_checks_its_edges() -> None:
    for edge in ((0, 0, 1), (0, 9, 1), (0, 1, 0)):
        with pytest.raises(OverlayError):
            Graph.numbered(3, [edge])
