"""The error answers of the rows dialect, PostgREST's codes and SQLSTATEs, as problems.

Source: PostgREST reference, "Errors"; PostgreSQL appendix A for the SQLSTATE classes. Where the
gateway answers for itself its own catalogue wins: lock waits and retries are `busy`, not 500.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.model.problem import Code, Problem

BUSY_RETRY_AFTER_S: Final = 1

_BUSY_STATES: Final = frozenset({"55P03", "57014", "40001", "40P01"})
_CODES: Final = {
    "23503": Code.CONFLICT,
    "23505": Code.CONFLICT,
    "42P01": Code.NOT_FOUND,
    "42883": Code.NOT_FOUND,
    "42501": Code.ACCESS_DENIED,
    "25006": Code.METHOD_NOT_ALLOWED,
    "P0001": Code.REQUEST_MALFORMED,
}
_STATUS_500: Final = frozenset({"21000", "53400", "42P17"})
_CLASSES_500: Final = frozenset(
    {"09", "25", "2D", "38", "39", "3B", "40", "54", "55", "57", "58", "F0", "HV", "P0", "XX"}
)
_CLASSES_503: Final = frozenset({"08", "53"})
_PT_STATE: Final = re.compile(r"PT([2-5][0-9]{2})")


def from_sqlstate(
    state: str, message: str, details: str | None = None, hint: str | None = None
) -> Problem:
    """Translate a database error into the answer that PostgREST's table gives it."""
    if state in _BUSY_STATES:
        return busy(message)
    code, status = _code_of(state)
    return Problem(code, message, native=state, status_override=status, details=details, hint=hint)


def _code_of(state: str) -> tuple[Code, int | None]:
    if state in _CODES:
        return _CODES[state], None
    if match := _PT_STATE.fullmatch(state):
        status = int(match[1])
        return (Code.REQUEST_MALFORMED if status < 500 else Code.UPSTREAM_FAILED), status
    if state == "57P01" or (state[:2] in _CLASSES_503 and state not in _STATUS_500):
        return Code.UPSTREAM_FAILED, 503
    if state in _STATUS_500 or state[:2] in _CLASSES_500:
        return Code.UPSTREAM_FAILED, 500
    return Code.REQUEST_MALFORMED, None


def busy(message: str) -> Problem:
    """The database could not take the request in time; nothing was changed."""
    return Problem(Code.BUSY, message, retry_after_s=BUSY_RETRY_AFTER_S)


def unreadable(what: str, why: str) -> Problem:
    """PGRST100: a part of the query string is not of the grammar."""
    message = f'"{what}" cannot be understood: {why}'
    return Problem(Code.REQUEST_MALFORMED, message, native="PGRST100")


def unsupported(feature: str, *, mutates: bool) -> Problem:
    """A feature of PostgREST that the gateway does not speak, by its name.

    A mutation is refused as `operation_not_fenced`: it must never be half understood.
    """
    if mutates:
        return Problem(Code.NOT_FENCED, f"{feature} cannot be fenced by this gateway; leave it out")
    return Problem(
        Code.REQUEST_MALFORMED,
        "Feature not implemented",
        native="PGRST127",
        details=f"{feature} is not supported by this gateway",
    )


def bad_body(message: str, details: str | None = None) -> Problem:
    """PGRST102: the request body is not what the operation takes."""
    return Problem(Code.REQUEST_MALFORMED, message, native="PGRST102", details=details)


def bad_put(message: str, native: str) -> Problem:
    """PGRST105, 114, 115: a PUT that does not name its one row, or has another one's body."""
    code = Code.METHOD_NOT_ALLOWED if native == "PGRST105" else Code.REQUEST_MALFORMED
    return Problem(code, message, native=native)


def beyond_the_end(offset: int, total: int) -> Problem:
    """PGRST103: the page begins where there are no rows any more, and their number was asked."""
    details = f"An offset of {offset} was requested, but there are only {total} rows."
    return bad_range("Requested range not satisfiable", details, total)


def bad_range(message: str, details: str, total: int | None = None) -> Problem:
    """PGRST103: limit or offset ask for what cannot be."""
    return Problem(Code.NOT_SATISFIABLE, message, native="PGRST103", details=details, total=total)


def bad_schema(asked: str, served: str) -> Problem:
    """PGRST106: Accept-Profile or Content-Profile names a schema that is not served."""
    return Problem(
        Code.NOT_ACCEPTABLE,
        f"Invalid schema: {asked}",
        native="PGRST106",
        hint=f"Only the following schemas are exposed: {served}",
    )


def no_media_type(asked: str) -> Problem:
    """PGRST107: no media type of Accept can be produced."""
    message = f"None of these media types are available: {asked}"
    return Problem(Code.NOT_ACCEPTABLE, message, native="PGRST107")


def not_one_row(count: int) -> Problem:
    """PGRST116: exactly one row was asked for. Whatever was written has been undone."""
    return Problem(
        Code.NOT_ACCEPTABLE,
        "Cannot coerce the result to a single JSON object",
        native="PGRST116",
        details=f"The result contains {count} rows",
    )


def bad_preferences(names: list[str]) -> Problem:
    """PGRST122: handling=strict met preferences that are not honoured."""
    return Problem(
        Code.REQUEST_MALFORMED,
        "Invalid preferences given with handling=strict",
        native="PGRST122",
        details=f"Invalid preferences: {', '.join(names)}",
    )


def too_many_affected(count: int) -> Problem:
    """PGRST124: more rows than max-affected. Whatever was written has been undone."""
    return Problem(
        Code.REQUEST_MALFORMED,
        "Query result exceeds max-affected preference constraint",
        native="PGRST124",
        details=f"The query affects {count} rows",
    )


def bad_path() -> Problem:
    """PGRST125: the path names no table."""
    message = "Invalid path specified in request URL"
    return Problem(Code.NOT_FOUND, message, native="PGRST125")


def no_member_column(column: str, table: str) -> Problem:
    """PGRST204: the body or `columns` names a column that the table has not."""
    message = f"Could not find the '{column}' column of '{table}' in the schema cache"
    return Problem(Code.REQUEST_MALFORMED, message, native="PGRST204")


def no_column(column: str, table: str) -> Problem:
    """42703: a filter, `select` or `order` names a column that the table has not."""
    return from_sqlstate("42703", f"column {table}.{column} does not exist")


def no_table(table: str, schema: str, hint: str | None = None) -> Problem:
    """PGRST205: there is no such table, or workers may not reach it."""
    message = f"Could not find the table '{schema}.{table}' in the schema cache"
    return Problem(Code.NOT_FOUND, message, native="PGRST205", hint=hint)


def precondition_failed(details: str) -> Problem:
    """The client's own If-Match or If-None-Match did not hold; nothing was changed."""
    message = "the row is not in the state that If-Match or If-None-Match asks for"
    return Problem(Code.PRECONDITION_FAILED, message, details=details)


def condition_unsupported(field: str, why: str) -> Problem:
    """A condition that cannot be evaluated is refused by name, never ignored."""
    return Problem(Code.CONDITION_UNSUPPORTED, f"{field} cannot be honoured here: {why}")


class RequestError(Exception):
    """A part of a request could not be understood; `problem` is the answer.

    Raised by the grammars below the dialect, and turned into a returned problem by it.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
