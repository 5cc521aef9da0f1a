"""The budget of a head: what counts as head, whatever the pieces."""

import asyncio

import pytest

from gateway.edge.head_budget import HeadBudget
from gateway.edge.limits import EdgeLimits

LIMITS = EdgeLimits(max_head_bytes=100, max_fields=2, head_timeout_s=60)


@pytest.fixture
async def budget() -> HeadBudget:
    return HeadBudget(LIMITS, asyncio.get_running_loop(), lambda: None)


async def test_received_bytes_of_an_unfinished_head(budget: HeadBudget) -> None:
    """They add up over the pieces, with the time running."""
    budget.begin()
    assert budget.after_piece(60, was_open=True)
    assert budget.running
    assert not budget.after_piece(60, was_open=True)


async def test_a_body_is_no_head(budget: HeadBudget) -> None:
    """A piece that completes the head, and those of the body, count for nothing."""
    budget.begin()
    budget.finish()
    assert budget.after_piece(9_000, was_open=True)
    assert budget.after_piece(9_000, was_open=False)
    assert not budget.running


async def test_a_head_that_begins_behind_a_body(budget: HeadBudget) -> None:
    """The piece that holds both is not counted, the next ones are."""
    budget.begin()
    budget.finish()
    budget.after_piece(50, was_open=True)
    budget.open = True
    budget.begin()
    assert budget.after_piece(9_000, was_open=False)
    assert budget.running
    assert not budget.after_piece(101, was_open=True)


async def test_pipelined_heads_start_anew(budget: HeadBudget) -> None:
    """Each complete head frees its budget."""
    for _ in range(5):
        budget.begin()
        assert budget.after_piece(60, was_open=True)
        budget.finish()
        assert budget.after_piece(30, was_open=True)
        budget.open = True
        assert not budget.running


async def test_parsed_bytes_and_fields(budget: HeadBudget) -> None:
    """A head in one piece is bounded by what the parser reports."""
    budget.begin()
    assert budget.spend(40)
    assert budget.spend_field(40)
    assert not budget.spend_field(40)
    budget.begin()
    assert budget.spend_field(1)
    assert budget.spend_field(1)
    assert not budget.spend_field(1)


async def test_blank_lines_before_a_request_count(budget: HeadBudget) -> None:
    """Bytes that begin no request are head too: they cannot go on for ever."""
    assert budget.after_piece(60, was_open=True)
    assert budget.running
    assert not budget.after_piece(60, was_open=True)
