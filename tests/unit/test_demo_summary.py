"""What the demo checks at its end: each number that is off is found by a check."""

from dataclasses import replace

import pytest

from worker.demo.summary import Facts, checks

FACTS = Facts(
    file_lines=10,
    enqueued={"admitted": 6, "duplicates": 2, "conflicts": 1, "invalid": 1},
    ledger={"admitted": 6, "settled": 4, "skipped": 0, "dead": 2, "in_flight": 0},
    dead=frozenset({"e", "f"}),
    effects={"a": 1, "b": 1, "c": 1, "d": 1},
    differing_bodies=0,
)


def failed(facts: Facts) -> list[str]:
    """Return the sentences of the checks that do not hold."""
    return [check.sentence for check in checks(facts) if not check.holds]


def test_numbers_that_agree_pass() -> None:
    """When file, counts and rail agree, every check holds."""
    assert failed(FACTS) == []


def test_dead_receipt_may_have_had_an_effect() -> None:
    """A rail that settled and never managed to say so leaves a dead letter and an effect: nothing is off."""
    assert failed(replace(FACTS, effects={**FACTS.effects, "e": 1})) == []


@pytest.mark.parametrize(
    "facts,sentence",
    [
        (replace(FACTS, file_lines=11), "= 11 lines of the file"),
        (replace(FACTS, ledger={**FACTS.ledger, "admitted": 7}), "the ledger admitted 7 of 6"),
        (replace(FACTS, ledger={**FACTS.ledger, "settled": 3}), "3 settled + 0 skipped + 2 dead"),
        (replace(FACTS, ledger={**FACTS.ledger, "settled": 3, "in_flight": 1}), "1 in flight"),
        (replace(FACTS, dead=frozenset({"e"})), "1 dead letters are stored for 2 dead jobs"),
        (replace(FACTS, effects={"a": 1, "b": 1, "c": 1}), "3 receipts that are not dead had an effect"),
        (replace(FACTS, effects={**FACTS.effects, "x": 1}), "5 receipts that are not dead had an effect"),
        (replace(FACTS, effects={**FACTS.effects, "a": 2}), "1 receipts had more than one effect"),
        (replace(FACTS, differing_bodies=1), "1 receipts reached the rail with two different bodies"),
    ],
)
def test_a_number_that_is_off_is_found(facts: Facts, sentence: str) -> None:
    """Whatever is off, a check that names it fails."""
    assert any(sentence in found for found in failed(facts))
