"""The tables as they were last read from the database, and when they are read again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.dialects.rows import problems
from gateway.engine.bulkhead import LanesBusy
from gateway.model.catalogue import Catalogue
from gateway.model.problem import Problem
from gateway.stores.mariadb.catalogue import (
    CatalogueError,
    Shape,
    Shapes,
    TableRules,
    catalogue_query,
    read_shapes,
)
from gateway.stores.mariadb.failures import Unreachable, is_driver_error
from gateway.stores.mariadb.lanes import Lanes


class Tables:
    """The configured tables of one database."""

    def __init__(
        self, lanes: Lanes, database: str, rules: Mapping[str, TableRules], *, deadline_s: float
    ) -> None:
        self._lanes = lanes
        self._database = database
        self._rules = rules
        self._deadline_s = deadline_s
        self._shapes = Shapes(Catalogue({}, database), {})
        self._loading = asyncio.Lock()

    @property
    def catalogue(self) -> Catalogue:
        """The tables as dialects see them; empty before `load`."""
        return self._shapes.catalogue

    def shape(self, table: str) -> Shape | Problem:
        """One table as statements see it, or that there is none."""
        found = self._shapes.by_name.get(table)
        return problems.no_table(table, self._database) if found is None else found

    async def load(self) -> None:
        """Read the tables. Raises `CatalogueError`, and what a statement raises."""
        query = catalogue_query(self._rules)
        results = await self._lanes.run([query], deadline_s=self._deadline_s)
        self._shapes = read_shapes(self._database, self._rules, results[0].rows)

    async def reload(self) -> bool:
        """Read the tables again after a statement did not fit them. True when they differ.

        Many statements may fail at once over one change, so they share one look.
        """
        before = self._shapes
        async with self._loading:
            if self._shapes is before:
                try:
                    await self.load()
                except (CatalogueError, LanesBusy, Unreachable):
                    return False
                except Exception as error:
                    if not is_driver_error(error):
                        raise
                    return False
        return self._shapes != before
