"""Why no broker could be reached: every reason, and none of them twice."""

from ottla.client.cluster_view import Node
from ottla.client.links import all_reasons
from ottla.errors import ConnectError, OttlaError


def refused(node: Node) -> tuple[Node, OttlaError]:
    return node, ConnectError(f"{node}: Connection refused")


def test_the_same_place_under_two_names_is_told_once() -> None:
    broker, beginning = Node(1, "localhost", 9092), Node(-1, "127.0.0.1", 9092)
    told = all_reasons([refused(broker), refused(beginning)])
    assert str(told) == "broker 1 (localhost:9092): Connection refused"


def test_other_places_and_other_reasons_are_told_as_well() -> None:
    one, two = Node(1, "localhost", 9092), Node(2, "localhost", 9093)
    closed = (Node(-1, "::1", 9092), ConnectError("[::1]:9092: the broker closed the connection"))
    assert str(all_reasons([refused(one), refused(two), closed])) == (
        "broker 1 (localhost:9092): Connection refused; "
        "broker 2 (localhost:9093): Connection refused; "
        "[::1]:9092: the broker closed the connection"
    )
