"""Every law of the edge holds on both event loops that it can run on."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of the standard library, and the one that the product is served with."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
