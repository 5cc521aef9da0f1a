"""Requests and PostgREST's answers to them.

The expectations are those of PostgREST's public specification; tables are cut down to what the
cases need. `{json}` and the like stand for types that the engines name differently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

TYPES: Final = MappingProxyType(
    {
        "sqlite": {
            "serial": "integer PRIMARY KEY AUTOINCREMENT",
            "json": "json",
            "ints": "text",
            "money": "text",
        },
        "mariadb": {
            "serial": "integer PRIMARY KEY AUTO_INCREMENT",
            "json": "json",
            "ints": "text",
            "money": "text",
        },
        "postgres": {
            "serial": "serial PRIMARY KEY",
            "json": "json",
            "ints": "int[]",
            "money": "money",
        },
    }
)

TABLES: Final = MappingProxyType(
    {
        "items": (
            "CREATE TABLE items(id {serial})",
            *(["INSERT INTO items DEFAULT VALUES"] * 15),
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
        "complex_items": (
            "CREATE TABLE complex_items(id bigint PRIMARY KEY, name text, settings {json}, "
            'arr_data {ints}, "field-with_sep" int NOT NULL DEFAULT 1)',
            "INSERT INTO complex_items VALUES (1, 'One', NULL, NULL), (2, 'Two', NULL, NULL)",
        ),
        "employees": (
            "CREATE TABLE employees(first_name text, last_name text, salary {money}, "
            "company text, occupation text, PRIMARY KEY (first_name, last_name))",
            "INSERT INTO employees VALUES ('Frances M.', 'Roe', '24000', 'One-Up Realty', "
            "'Author'), ('Daniel B.', 'Lyon', '36000', 'Dubrow''s Cafeteria', 'Packer')",
        ),
        "single_unique": (
            "CREATE TABLE single_unique(unique_key int UNIQUE NOT NULL, value text)",
            "INSERT INTO single_unique VALUES (1, 'A')",
        ),
        "surr_serial_upsert": (
            "CREATE TABLE surr_serial_upsert(id {serial}, name text, extra text)",
            "INSERT INTO surr_serial_upsert(name, extra) VALUES ('value', 'existing value')",
        ),
        "UnitTest": (
            'CREATE TABLE "UnitTest"("idUnitTest" int PRIMARY KEY, "nameUnitTest" text)',
            "INSERT INTO \"UnitTest\" VALUES (1, 'unit test 1')",
        ),
        "entities": (
            "CREATE TABLE entities(id int PRIMARY KEY, name text)",
            "INSERT INTO entities VALUES (1, 'entity 1'), (2, 'entity 2'), (3, 'entity 3'), "
            "(4, NULL)",
        ),
        "bitchar_with_length": (
            'CREATE TABLE bitchar_with_length(bit bit(5), "char" char(5))',
            "INSERT INTO bitchar_with_length VALUES ('00000', 'aaaaa'), ('11111', 'bbbbb')",
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

    `fields` must be there with these values, `absent` must not. `only`: the engine whose types the
    case is about; `refused_by`: those that cannot do it, and refuse by name.
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
    only: str = ""
    refused_by: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """The table that the case is about."""
        return self.target.partition("?")[0].removeprefix("/")


def _error(code: str, message: str, details: str | None = None) -> dict[str, str | None]:
    return {"code": code, "message": message, "details": details, "hint": None}


_SHOWN: Final = {"prefer": "return=representation"}
_MERGED: Final = {"prefer": "return=representation, resolution=merge-duplicates"}
_APPLIED: Final = {
    "preference-applied": "resolution=merge-duplicates, return=representation",
}
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
        "PATCH",
        "/no_pk?a=eq.1",
        200,
        {"b": None},
        _SHOWN,
        [{"a": "1", "b": None}],
        refused_by=("mariadb",),
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
    "insert_nothing": Case("POST", "/no_pk", 201, [], _SHOWN, []),
    "insert_defaults": Case("POST", "/items", 201, [{}, {}], answer=None, absent=("content-type",)),
    "insert_unlike_rows": Case(
        "POST",
        "/articles",
        400,
        [{"id": 100, "body": "xxxxx"}, {"id": 111, "body": "xxxx", "owner": "me"}],
        answer=_error("PGRST102", "All object keys must match"),
    ),
    "insert_missing_defaults": Case(
        "POST",
        "/complex_items?columns=id,name,field-with_sep,arr_data",
        201,
        [
            {"id": 4, "name": "Vier"},
            {"id": 5, "name": "Funf", "arr_data": None},
            {"id": 6, "name": "Sechs", "field-with_sep": 6, "arr_data": "{1,2,3}"},
        ],
        {"prefer": "return=representation, missing=default"},
        [
            {"id": 4, "name": "Vier", "field-with_sep": 1, "settings": None, "arr_data": None},
            {"id": 5, "name": "Funf", "field-with_sep": 1, "settings": None, "arr_data": None},
            {
                "id": 6,
                "name": "Sechs",
                "field-with_sep": 6,
                "settings": None,
                "arr_data": [1, 2, 3],
            },
        ],
        {"preference-applied": "missing=default, return=representation"},
        only="postgres",
    ),
    "insert_other_script": Case(
        "POST",
        "/simple_pk?select=extra,k",
        201,
        {"k": "棋圍", "extra": "￥"},
        _SHOWN,
        [{"k": "棋圍", "extra": "￥"}],
    ),
    "insert_two_single": Case(
        "POST",
        "/addresses",
        406,
        [{"id": 204, "address": "xxx"}, {"id": 205, "address": "yyy"}],
        {**_ONE, "prefer": "return=minimal"},
        _error(
            "PGRST116",
            "Cannot coerce the result to a single JSON object",
            "The result contains 2 rows",
        ),
        then=("/addresses?id=eq.204", []),
    ),
    "upsert_merge": Case(
        "POST",
        "/tiobe_pls",
        201,
        [
            {"name": "Javascript", "rank": 6},
            {"name": "Java", "rank": 2},
            {"name": "C", "rank": 1},
        ],
        _MERGED,
        [
            {"name": "Javascript", "rank": 6},
            {"name": "Java", "rank": 2},
            {"name": "C", "rank": 1},
        ],
        _APPLIED,
    ),
    "upsert_compound": Case(
        "POST",
        "/employees",
        201,
        [
            {"first_name": "Frances M.", "last_name": "Roe", "salary": "30000"},
            {"first_name": "Peter S.", "last_name": "Yang", "salary": 42000},
        ],
        _MERGED,
        [
            {
                "first_name": "Frances M.",
                "last_name": "Roe",
                "salary": "$30,000.00",
                "company": "One-Up Realty",
                "occupation": "Author",
            },
            {
                "first_name": "Peter S.",
                "last_name": "Yang",
                "salary": "$42,000.00",
                "company": None,
                "occupation": None,
            },
        ],
        _APPLIED,
        only="postgres",
    ),
    "upsert_on_conflict": Case(
        "POST",
        "/single_unique?on_conflict=unique_key",
        201,
        [{"unique_key": 1, "value": "B"}, {"unique_key": 2, "value": "C"}],
        _MERGED,
        [{"unique_key": 1, "value": "B"}, {"unique_key": 2, "value": "C"}],
        _APPLIED,
    ),
    "upsert_missing_default": Case(
        "POST",
        "/surr_serial_upsert?columns=id,name&select=name,extra",
        201,
        [{"id": 1, "name": "updated value"}, {"name": "new value"}],
        {"prefer": "return=representation, resolution=merge-duplicates, missing=default"},
        [
            {"name": "updated value", "extra": "existing value"},
            {"name": "new value", "extra": None},
        ],
        {
            "preference-applied": "resolution=merge-duplicates, missing=default, "
            "return=representation"
        },
    ),
    "upsert_without_key": Case(
        "POST",
        "/no_pk",
        201,
        [{"a": "1", "b": "0"}],
        _MERGED,
        [{"a": "1", "b": "0"}],
        {"preference-applied": "return=representation"},
    ),
    "upsert_mixed_case": Case(
        "POST",
        "/UnitTest",
        201,
        [
            {"idUnitTest": 1, "nameUnitTest": "name of unittest 1"},
            {"idUnitTest": 2, "nameUnitTest": "name of unittest 2"},
        ],
        _MERGED,
        [
            {"idUnitTest": 1, "nameUnitTest": "name of unittest 1"},
            {"idUnitTest": 2, "nameUnitTest": "name of unittest 2"},
        ],
        _APPLIED,
    ),
    "put_by_another_column": Case(
        "PUT",
        "/tiobe_pls?rank=eq.19",
        405,
        [{"name": "Go", "rank": 19}],
        answer=_error(
            "PGRST105", "Filters must include all and only primary key columns with 'eq' operators"
        ),
    ),
    "put_another_row": Case(
        "PUT",
        "/tiobe_pls?name=eq.MATLAB",
        400,
        [{"name": "Perl", "rank": 17}],
        answer=_error("PGRST115", "Payload values do not match URL in primary key column(s)"),
        then=("/tiobe_pls?name=eq.Perl", []),
    ),
    "put": Case(
        "PUT",
        "/tiobe_pls?name=eq.Java",
        200,
        [{"name": "Java", "rank": 13}],
        _SHOWN,
        [{"name": "Java", "rank": 13}],
    ),
    "put_one_of_two": Case(
        "PUT",
        "/tiobe_pls?name=eq.Java",
        200,
        [{"name": "Java", "rank": 19}, {"name": "Swift", "rank": 12}],
        {**_SHOWN, **_ONE},
        {"name": "Java", "rank": 19},
        {"content-type": "application/vnd.pgrst.object+json; charset=utf-8"},
        then=("/tiobe_pls?name=eq.Swift", []),
    ),
    "update_bits": Case(
        "PATCH",
        "/bitchar_with_length?select=bit,char&char=eq.aaaaa",
        200,
        {"bit": "11100"},
        _SHOWN,
        [{"bit": "11100", "char": "aaaaa"}],
        only="postgres",
    ),
    "delete_counted": Case(
        "DELETE",
        "/items?id=eq.2",
        200,
        None,
        {"prefer": "return=representation, count=exact"},
        [{"id": 2}],
        {
            "content-range": "*/1",
            "preference-applied": "return=representation, count=exact",
        },
    ),
    "read_tree": Case(
        "GET",
        "/entities?or=(and(name.eq.entity 2,id.eq.2),and(name.eq.entity 1,id.eq.1))"
        "&select=id&order=id",
        200,
        answer=[{"id": 1}, {"id": 2}],
    ),
    "read_beyond_the_end": Case(
        "GET",
        "/items?offset=100",
        416,
        None,
        {"prefer": "count=exact"},
        _error(
            "PGRST103",
            "Requested range not satisfiable",
            "An offset of 100 was requested, but there are only 15 rows.",
        ),
        {"content-range": "*/15"},
    ),
}

LEFT_OUT: Final = {
    "embedding": Case("PATCH", "/tiobe_pls?select=name,other(*)", 501, {"rank": 9}),
    "filter_of_an_embedding": Case("DELETE", "/tiobe_pls?other.id=eq.1", 501),
    "aggregate": Case("POST", "/items?select=id.count()", 501, {}),
    "page_of_a_mutation": Case("DELETE", "/items?limit=1", 501),
}
"""What PostgREST does and the gateway does not: refused by name, nothing changed."""
