"""Requests and PostgREST's answers to them, as far as the dialect's subset goes.

The expectations are those of PostgREST's public specification; tables are cut down to what the
cases need. `{json}` and the like stand for types that the engines name differently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

TYPES: Final = MappingProxyType(
    {
        "sqlite": {"serial": "integer PRIMARY KEY AUTOINCREMENT", "json": "json"},
        "postgres": {"serial": "serial PRIMARY KEY", "json": "json"},
    }
)

TABLES: Final = MappingProxyType(
    {
        "items": (
            "CREATE TABLE items(id {serial})",
            "INSERT INTO items VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),"
            "(15)",
        ),
        "auto_incrementing_pk": (
            "CREATE TABLE auto_incrementing_pk(id {serial}, nullable_string varchar, "
            "non_nullable_string varchar NOT NULL)",
            "INSERT INTO auto_incrementing_pk(non_nullable_string) VALUES ('the first')",
            "DELETE FROM auto_incrementing_pk",
        ),
        "simple_pk": (
            "CREATE TABLE simple_pk(k varchar PRIMARY KEY, extra varchar NOT NULL)",
            "INSERT INTO simple_pk VALUES ('xyyx', 'u'), ('xYYx', 'v')",
        ),
        "no_pk": (
            "CREATE TABLE no_pk(a varchar, b varchar)",
            "INSERT INTO no_pk VALUES (NULL, NULL), ('1', '0'), ('2', '0')",
        ),
        "compound_pk": (
            "CREATE TABLE compound_pk(k1 int NOT NULL, k2 text NOT NULL, extra int, "
            "PRIMARY KEY (k1, k2))",
        ),
        "withUnique": (
            'CREATE TABLE "withUnique"(uni text UNIQUE, extra text)',
            "INSERT INTO \"withUnique\" VALUES ('nodup', 'blah')",
        ),
        "json_table": ("CREATE TABLE json_table(data {json})",),
        "empty_table": ("CREATE TABLE empty_table(k varchar NOT NULL, extra varchar NOT NULL)",),
        "articles": (
            "CREATE TABLE articles(id int PRIMARY KEY, body text)",
            "INSERT INTO articles VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        ),
        "addresses": ("CREATE TABLE addresses(id int NOT NULL UNIQUE, address text NOT NULL)",),
        "tiobe_pls": (
            "CREATE TABLE tiobe_pls(name text PRIMARY KEY, rank smallint)",
            "INSERT INTO tiobe_pls VALUES ('Java', 1), ('C', 2)",
        ),
        "chores": (
            "CREATE TABLE chores(id int PRIMARY KEY, name text, done boolean)",
            "INSERT INTO chores VALUES (1, 'take out the garbage', TRUE), "
            "(2, 'do the laundry', FALSE), (3, 'wash the dishes', NULL)",
        ),
        "names": (
            "CREATE TABLE names(name text)",
            "INSERT INTO names VALUES ('Hebdon, John'), ('David White'), ('\"'), "
            "('Double\"Quote\"McGraw\"'), ('\\'), ('/\\Slash/\\Beast/\\')",
        ),
        "nullable_integer": (
            "CREATE TABLE nullable_integer(a int)",
            "INSERT INTO nullable_integer VALUES (NULL)",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its answer; `then` is a read afterwards and what it finds.

    `fields` must be there with these values, `absent` must not.
    """

    method: str
    target: str
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    answer: Any = ...
    fields: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    then: tuple[str, Any] | None = None

    @property
    def table(self) -> str:
        """The table that the case is about."""
        return self.target.partition("?")[0].removeprefix("/")


def _error(code: str, message: str, details: str | None = None) -> dict[str, str | None]:
    return {"code": code, "message": message, "details": details, "hint": None}


_SHOWN: Final = {"prefer": "return=representation"}
_ONE: Final = {"accept": "application/vnd.pgrst.object+json"}

CASES: Final = {
    "insert_headers_only": Case(
        "POST",
        "/auto_incrementing_pk",
        201,
        {"non_nullable_string": "not null"},
        {"prefer": "return=headers-only"},
        answer=None,
        fields={
            "location": "/db/auto_incrementing_pk?id=eq.2",
            "preference-applied": "return=headers-only",
        },
        absent=("content-type",),
    ),
    "insert_without_key": Case(
        "POST", "/no_pk", 201, {"a": "foo", "b": "bar"}, answer=None, absent=("location",)
    ),
    "insert_compound": Case(
        "POST",
        "/compound_pk",
        201,
        {"k1": 12, "k2": "Rock & R+ll"},
        _SHOWN,
        [{"k1": 12, "k2": "Rock & R+ll", "extra": None}],
    ),
    "insert_without_body": Case(
        "POST", "/simple_pk", 400, b"", answer=_error("PGRST102", "Empty or invalid json")
    ),
    "insert_minimal": Case("POST", "/simple_pk", 201, {"k": "k1", "extra": "e1"}, answer=None),
    "insert_duplicate": Case("POST", "/withUnique", 409, {"uni": "nodup", "extra": "e2"}),
    "insert_json": Case(
        "POST", "/json_table", 201, {"data": [1, 2, 3]}, _SHOWN, [{"data": [1, 2, 3]}]
    ),
    "insert_unknown_column": Case(
        "POST",
        "/articles?columns=helicopter",
        400,
        [{"id": 204, "body": "yyy"}],
        answer=_error(
            "PGRST204",
            "Could not find the 'helicopter' column of 'articles' in the schema cache",
        ),
    ),
    "insert_unicode": Case(
        "POST",
        "/simple_pk?select=extra,k",
        201,
        {"k": "棋圍", "extra": "¥"},
        _SHOWN,
        [{"k": "棋圍", "extra": "¥"}],
    ),
    "update_empty_table": Case(
        "PATCH",
        "/empty_table",
        204,
        {"extra": 20},
        answer=None,
        absent=("content-type", "content-length"),
    ),
    "update_nothing_found": Case(
        "PATCH",
        "/items?id=eq.999999",
        200,
        {"id": 999999},
        _SHOWN,
        [],
        {"preference-applied": "return=representation", "content-range": "*/*"},
    ),
    "update_to_null": Case(
        "PATCH", "/no_pk?a=eq.1", 200, {"b": None}, _SHOWN, [{"a": "1", "b": None}]
    ),
    "update_columns": Case(
        "PATCH",
        "/articles?id=eq.1&columns=body&select=id,body",
        200,
        {"body": "Some real content", "smth": "here", "fake_id": 13},
        _SHOWN,
        [{"id": 1, "body": "Some real content"}],
    ),
    "delete_nothing_found": Case(
        "DELETE", "/items?id=eq.101", 200, None, _SHOWN, [], {"content-range": "*/*"}
    ),
    "delete_single_of_many": Case(
        "DELETE",
        "/items?id=gt.0&id=lt.6",
        406,
        None,
        _ONE,
        _error(
            "PGRST116",
            "Cannot coerce the result to a single JSON object",
            "The result contains 5 rows",
        ),
        then=("/items?id=gt.0&id=lt.6&order=id", [{"id": n} for n in range(1, 6)]),
    ),
    "delete_too_many": Case(
        "DELETE",
        "/items?id=lt.15",
        400,
        None,
        {"prefer": "handling=strict, max-affected=10"},
        _error(
            "PGRST124",
            "Query result exceeds max-affected preference constraint",
            "The query affects 14 rows",
        ),
        then=("/items?select=id&limit=1&order=id", [{"id": 1}]),
    ),
    "delete_too_many_leniently": Case(
        "DELETE",
        "/items?id=lt.15",
        204,
        None,
        {"prefer": "handling=lenient, max-affected=10"},
        None,
        {"preference-applied": "handling=lenient"},
        then=("/items", [{"id": 15}]),
    ),
    "read_unknown": Case(
        "GET",
        "/chores?done=is.unknown",
        200,
        answer=[{"id": 3, "name": "wash the dishes", "done": None}],
    ),
    "read_quoted_list": Case(
        "GET",
        '/names?name=in.("Hebdon, John",David White)',
        200,
        answer=[{"name": "Hebdon, John"}, {"name": "David White"}],
    ),
    "read_blank_in_list": Case(
        "GET",
        "/nullable_integer?a=in.( ,3,4)",
        400,
        answer=_error("22P02", 'invalid input syntax for type integer: ""'),
    ),
    "read_page": Case(
        "GET",
        "/items?select=id&order=id.asc&limit=3&offset=2",
        200,
        answer=[{"id": 3}, {"id": 4}, {"id": 5}],
        fields={"content-range": "2-4/*"},
    ),
    "read_sorted_address": Case(
        "GET",
        "/no_pk?b=eq.1&a=eq.1",
        200,
        answer=[],
        fields={"content-location": "/db/no_pk?a=eq.1&b=eq.1"},
    ),
}

LEFT_OUT: Final = {
    "insert_no_row": Case("POST", "/no_pk", 501, []),
    "insert_two_rows": Case("POST", "/items", 501, [{}, {}]),
    "insert_two_single": Case(
        "POST", "/addresses", 501, [{"id": 204, "address": "x"}, {"id": 205, "address": "y"}], _ONE
    ),
    "upsert": Case(
        "POST",
        "/tiobe_pls",
        501,
        {"name": "Java", "rank": 9},
        {"prefer": "resolution=merge-duplicates"},
    ),
    "upsert_on_conflict": Case(
        "POST", "/tiobe_pls?on_conflict=name", 501, {"name": "Java", "rank": 9}
    ),
    "put": Case("PUT", "/tiobe_pls?name=eq.Java", 501, {"name": "Java", "rank": 9}),
    "logic": Case("DELETE", "/tiobe_pls?or=(name.eq.Java,rank.eq.1)", 501),
    "like": Case("PATCH", "/tiobe_pls?name=like.J*", 501, {"rank": 9}),
}
"""What PostgREST does and the gateway does not: refused by name, nothing changed."""
