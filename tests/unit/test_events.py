"""The list of events: names are unique and well formed, and no field could carry a detail."""

import re

import pytest

from reliability.events import Event

FORBIDDEN_FIELDS = {"detail", "payload", "body", "secret", "token", "error", "message", "observation", "url", "headers"}


@pytest.mark.parametrize("event", Event)
def test_an_event_is_named_subject_and_fact(event: Event) -> None:
    """A name is two lower-case words with a dot between, spelled alike in code, and has a one-sentence meaning."""
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+", event.value)
    assert event.name == event.value.replace(".", "_").upper()
    assert event.meaning.endswith(".")
    assert Event(event.value) is event


@pytest.mark.parametrize("event", Event)
def test_fields_are_ids_codes_counts_and_times(event: Event) -> None:
    """No event has a field that could carry a detail, a payload or a secret, and every event has some field."""
    assert event.fields
    assert len(set(event.fields)) == len(event.fields)
    assert FORBIDDEN_FIELDS.isdisjoint(event.fields)


@pytest.mark.parametrize("kind", ["settlement", "delivery"])
@pytest.mark.parametrize("fact", ["admitted", "retry_scheduled", "deferred", "dead_lettered", "pending", "confirmed"])
def test_both_kinds_of_job_tell_the_same_story(kind: str, fact: str) -> None:
    """Settlements and deliveries share the names of the steps they share."""
    assert Event(f"{kind}.{fact}") in Event
