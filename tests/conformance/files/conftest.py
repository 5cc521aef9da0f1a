"""The files store runs on the loop that the product is served with, and on the standard one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both loops: the store hands work to threads, and takes locks between its awaits."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
