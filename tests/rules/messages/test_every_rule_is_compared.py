"""Test that the numbers in the messages of every rule are compared with facts."""

from __future__ import annotations

from tests.rules.messages import (
    test_messages_about_crashes,
    test_messages_about_data,
    test_messages_about_evaluations,
    test_messages_about_losses,
    test_messages_about_models,
    test_messages_about_runs,
    test_messages_about_signals,
    test_messages_about_times,
)
from tests.rules.messages.program import RULES
from tests.rules.test_messages_match_events import CLAIMS as EVENT_CLAIMS
from tests.rules.test_messages_match_record import CLAIMS as RECORD_CLAIMS

TABLES = (
    test_messages_about_crashes,
    test_messages_about_data,
    test_messages_about_evaluations,
    test_messages_about_losses,
    test_messages_about_models,
    test_messages_about_runs,
    test_messages_about_signals,
    test_messages_about_times,
)


def test_numbers_of_every_rule_are_compared_with_facts() -> None:
    compared = {*EVENT_CLAIMS, *RECORD_CLAIMS}.union(*(table.FACTS for table in TABLES))
    assert compared == set(RULES)
