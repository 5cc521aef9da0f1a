"""The files store runs on the loop that the product is served with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

STANDARD_LOOP = {"asyncio": asyncio.new_event_loop}
SERVED_LOOP = {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both loops where cancellations are the law: each delivers them in turns of its own."""
    both = item.path.stem == "test_files_uploads"
    return {**STANDARD_LOOP, **SERVED_LOOP} if both else SERVED_LOOP
