"""What the demo checks of deliveries at its end: each number that is off is found by a check."""

from dataclasses import replace

import pytest

from worker.demo.delivery_summary import DeliveryFacts, checks

FACTS = DeliveryFacts(
    file_lines=8,
    enqueued={"admitted": 5, "duplicates": 1, "conflicts": 1, "invalid": 1},
    ledger={"admitted": 5, "confirmed": 4, "dead": 1, "in_flight": 0},
    dead=frozenset({"delivery:ember:e"}),
    effects={
        "delivery:harbour:a": 1,
        "delivery:harbour:b": 1,
        "delivery:lantern:c": 1,
        "delivery:lantern:d": 1,
        "delivery:ember:e": 1,
    },
    differing_bodies=0,
    receipts=frozenset({"delivery:lantern:c", "delivery:lantern:d"}),
    escalated={"delivery:ember:e": 2},
    opened=1,
    is_closed=True,
    waits=3,
    waits_that_spent=0,
)


def failed(facts: DeliveryFacts) -> list[str]:
    """Return the sentences of the checks that do not hold."""
    return [check.sentence for check in checks(facts) if not check.holds]


def test_numbers_that_agree_pass() -> None:
    """When file, counts, events and partners agree, every check holds."""
    assert failed(FACTS) == []


@pytest.mark.parametrize(
    "facts,sentence",
    [
        (replace(FACTS, file_lines=9), "= 9 lines of the file"),
        (replace(FACTS, ledger={**FACTS.ledger, "admitted": 6}), "the ledger admitted 6 of 5"),
        (replace(FACTS, ledger={**FACTS.ledger, "confirmed": 3}), "3 confirmed + 1 dead = 5"),
        (replace(FACTS, ledger={**FACTS.ledger, "confirmed": 3, "in_flight": 1}), "1 in flight"),
        (replace(FACTS, dead=frozenset()), "0 dead letters are stored for 1 dead"),
        (replace(FACTS, effects={**FACTS.effects, "delivery:harbour:x": 1}), "5 deliveries that are not dead"),
        (replace(FACTS, effects={**FACTS.effects, "delivery:harbour:a": 2}), "1 deliveries took effect more than once"),
        (replace(FACTS, differing_bodies=1), "1 deliveries reached a partner with two"),
        (replace(FACTS, receipts=frozenset({"delivery:lantern:c"})), "confirmed by 1 receipts"),
        (replace(FACTS, dead=FACTS.dead | {"delivery:lantern:c"}), "lantern confirms late"),
        (replace(FACTS, escalated={}), "ember never confirms"),
        (replace(FACTS, dead=frozenset()), "ember never confirms"),
        (replace(FACTS, opened=0), "harbour was down"),
        (replace(FACTS, is_closed=False), "harbour was down"),
        (replace(FACTS, waits=0), "harbour was down"),
        (replace(FACTS, waits_that_spent=2), "2 waits spent an attempt"),
    ],
)
def test_a_number_that_is_off_is_found(facts: DeliveryFacts, sentence: str) -> None:
    """Whatever is off, a check that names it fails."""
    assert any(sentence in found for found in failed(facts))
