"""Which points of a directed graph can reach each other?

This is Tarjan's algorithm, without recursion: histories have tens of thousands of operations, and
Python's stack has a thousand frames.
"""

from collections.abc import Iterator, Mapping, Sequence


def cycles(edges: Mapping[int, Sequence[int]]) -> Iterator[set[int]]:
    """Each largest set of two or more points in which every one leads to every other."""
    search = _Search(edges)
    for root in edges:
        if root not in search.number:
            yield from search.explore(root)


class _Search:
    def __init__(self, edges: Mapping[int, Sequence[int]]) -> None:
        self._edges = edges
        self.number: dict[int, int] = {}
        """Points in the order in which they were found."""
        self._lowest: dict[int, int] = {}
        """The first found of those, still open, that a point is known to reach."""
        self._open: dict[int, None] = {}
        """Found, but not yet assigned to a set; in the order of finding."""

    def explore(self, root: int) -> Iterator[set[int]]:
        path = [(root, self._enter(root))]
        while path:
            point, successors = path[-1]
            following = next(successors, None)
            if following is None:
                path.pop()
                if path:
                    self._reaches(path[-1][0], self._lowest[point])
                if self._lowest[point] == self.number[point]:
                    component = self._take_from(point)
                    if len(component) > 1:
                        yield component
            elif following not in self.number:
                path.append((following, self._enter(following)))
            elif following in self._open:
                self._reaches(point, self.number[following])

    def _enter(self, point: int) -> Iterator[int]:
        self.number[point] = self._lowest[point] = len(self.number)
        self._open[point] = None
        return iter(self._edges.get(point, ()))

    def _reaches(self, point: int, number: int) -> None:
        self._lowest[point] = min(self._lowest[point], number)

    def _take_from(self, point: int) -> set[int]:
        """Close `point` and everything that was found after it."""
        component: set[int] = set()
        while point in self._open:
            component.add(self._open.popitem()[0])
        return component
