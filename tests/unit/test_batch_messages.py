"""What a batch message may hold, and how it is shown."""

import pytest

from reliability.errors import InvalidMessageError
from tasks import batch_messages, shown
from worker import redaction


def test_pairs_are_read_in_order() -> None:
    """Each pair is a job id and the attempt it asks for."""
    message = batch_messages.decode_batch({"jobs": [["b", 3], ["a", 2**32 - 1]]})

    assert (message.wanted, message.refused) == ([("b", 3), ("a", 2**32 - 1)], ())


@pytest.mark.parametrize("said,ordered", [({}, False), ({"ordered": False}, False), ({"ordered": True}, True)])
def test_a_message_may_say_that_its_pairs_are_in_order(said: dict[str, object], ordered: bool) -> None:
    """Nothing said means that the worker has to look; a pair that is none changes nothing."""
    for jobs in ([["a", 0]], [["a", 0], None]):
        message = batch_messages.decode_batch({"jobs": jobs, **said})
        assert (message.wanted, message.ordered) == ([("a", 0)], ordered)


def test_an_order_that_is_neither_true_nor_false_is_refused() -> None:
    """The message is quarantined whole, with the argument's name."""
    with pytest.raises(InvalidMessageError, match="ordered: expected true or false, got a string"):
        batch_messages.decode_batch({"jobs": [["a", 0]], "ordered": "true"})


def test_a_thousand_pairs_are_read() -> None:
    """The most that a message may name is read; one more is refused whole."""
    jobs = [[f"rcpt-{number}", 0] for number in range(1_001)]

    assert len(batch_messages.decode_batch({"jobs": jobs[:1_000]}).wanted) == 1_000
    with pytest.raises(InvalidMessageError, match="1 to 1000"):
        batch_messages.decode_batch({"jobs": jobs})


@pytest.mark.parametrize("pair", [["x" * 201, 0], ["\ud800", 0], ["a", 2**32], ["a", 0.0], ["a", None], {"a": 0}])
def test_a_pair_out_of_range_is_refused_alone(pair: object) -> None:
    """Its neighbours are read, and its reason holds no value."""
    message = batch_messages.decode_batch({"jobs": [pair, ["ok", 0]]})

    (refused,) = message.refused
    assert message.wanted == [("ok", 0)]
    assert refused.found is pair
    assert "x" * 20 not in str(refused.error)


@pytest.mark.parametrize("show", [shown.arguments, redaction.shown_arguments])
def test_of_a_batch_only_its_size_is_shown(show: object) -> None:
    """Flower, events and logs tell how many jobs a message names, and none of them."""
    assert show({"jobs": [["rcpt-1", 0], ["rcpt-2", 1]]}) == "{'count': 2}"  # type: ignore[operator]  # a column of functions
