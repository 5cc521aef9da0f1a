"""Laws of buckets and listings (Amazon S3 API: ListObjects, ListObjectsV2, ListBuckets)."""

from __future__ import annotations

from typing import Final

from gateway.model.conditions import NO_CONDITIONS
from gateway.model.object_action import HeadBucket, ListBuckets, ListObjects, PutObject
from gateway.model.operation import Kind
from gateway.model.problem import Code
from gateway.model.reply import BucketFound, Buckets, Listing
from gateway.ports.store import NotWritten, ReadDone, ReadResult
from gateway.testing.store_subject import (
    Gate,
    OpenSubject,
    Pieces,
    Subject,
    code_of,
    etag_of,
    require,
)

ODD_KEYS: Final = (
    "a",
    "a/",
    "a/b",
    "a//b",
    "//",
    "/lead",
    "trail/",
    "..",
    "../up",
    "./here",
    "a/../b",
    "sp ace+plus%25",
    "%2e%2e",
    "ü/é",
    "e\u0301",
    "\U0001f600",
    "quote'\"<&>",
    "back\\slash",
    ".fencegate",
    "A",
    "x" * 1024,
    "d/" * 512,
)
"""Keys that S3 takes and that a file system would fold, refuse or follow."""


async def _list(subject: Subject, version: int = 2, **query: str) -> ReadResult:
    fields = tuple((name.replace("_", "-"), value) for name, value in query.items())
    action = ListObjects(subject.bucket, version, fields)
    return await subject.store.read(subject.operation(action, Kind.LIST, "GET", "", NO_CONDITIONS))


async def _page(subject: Subject, version: int = 2, **query: str) -> Listing:
    result = await _list(subject, version, **query)
    if not isinstance(result, ReadDone) or not isinstance(result.reply, Listing):
        raise AssertionError(f"listing with {query} answered {result!r}")
    return result.reply


async def _all(subject: Subject, version: int, **query: str) -> tuple[list[str], list[str], int]:
    """Follow the pages to the end: keys, common prefixes, number of pages."""
    keys: list[str] = []
    prefixes: list[str] = []
    follow = "continuation_token" if version == 2 else "marker"
    for pages in range(1, 200):
        page = await _page(subject, version, **query)
        keys += [entry.key for entry in page.objects]
        prefixes += page.prefixes
        if page.next_key is None:
            return keys, prefixes, pages
        query[follow] = page.next_key
    raise AssertionError("the listing does not end")


async def _fill(subject: Subject, keys: tuple[str, ...]) -> None:
    for key in keys:
        etag_of(await subject.put(key, key.encode()))


async def check_odd_keys(open_subject: OpenSubject) -> None:
    """Every key of up to 1024 bytes is an object of its own, and is listed as it was written."""
    async with open_subject() as subject:
        await _fill(subject, ODD_KEYS)
        for key in ODD_KEYS:
            seen = await subject.seen(key)
            require(seen is not None, f"{key!r} is not there")
            require(seen is not None and seen.data == key.encode(), f"{key!r} is another object")
        keys, _, _ = await _all(subject, 2)
        require(keys == sorted(ODD_KEYS, key=str.encode), f"listed were {keys!r}")


async def check_key_limits(open_subject: OpenSubject) -> None:
    """A key above 1024 bytes and a bucket that is not there are refused by name."""
    async with open_subject() as subject:
        for key in ("y" * 1025, "ü" * 513):
            gate = Gate()
            result = await subject.put(key, b"", gate=gate)
            require(isinstance(result, NotWritten), f"a key of 1025 bytes answered {result!r}")
            require(gate.calls == 0, "the gate was asked for a key that cannot be")
        action = PutObject("no-such-bucket", "a", 0)
        operation = subject.operation(action, Kind.WRITE, "PUT", "a", NO_CONDITIONS)
        mark = await subject.carry(subject.scope("a"), 1)
        result = await subject.mutate(operation, Pieces(b""), mark=mark, scope=subject.scope("a"))
        native = result.problem.native if isinstance(result, NotWritten) else None
        require(native == "NoSuchBucket", f"a missing bucket answered {result!r}")


async def check_list_order(open_subject: OpenSubject) -> None:
    """Keys come in the byte order of UTF-8, in both versions, with tag, size and time."""
    names = ("b", "a", "B", "a-", "a/", "a0", "z", "é", "\uffff", "\U00010000", "")
    keys = tuple(f"k{name}" for name in names)
    async with open_subject() as subject:
        await _fill(subject, keys)
        for version in (1, 2):
            page = await _page(subject, version)
            listed = [entry.key for entry in page.objects]
            require(listed == sorted(keys, key=str.encode), f"v{version} listed {listed!r}")
            require(page.next_key is None, "a complete listing has a next page")
        for entry in (await _page(subject)).objects:
            seen = await subject.seen(entry.key)
            require(seen is not None and seen.etag == entry.etag, f"{entry.key!r}: other tag")
            require(entry.size == len(entry.key.encode()), f"{entry.key!r}: other size")
            require(entry.last_modified_s > 1_000_000_000, f"{entry.key!r}: no time")


async def check_list_pages(open_subject: OpenSubject) -> None:
    """Pages of every size give each key once, in order; max-keys bounds keys and prefixes."""
    keys = ("a", *(f"{folder}/{number}" for folder in "abc" for number in range(3)), "d")
    async with open_subject() as subject:
        await _fill(subject, keys)
        ordered = sorted(keys, key=str.encode)
        for version in (1, 2):
            for size in (1, 2, 3, 5, 11, 12, 1000):
                listed, prefixes, pages = await _all(subject, version, max_keys=str(size))
                require(listed == ordered, f"v{version} by {size}: {listed!r}")
                require(not prefixes, "prefixes without a delimiter")
                require(pages == -(-len(keys) // size), f"v{version} by {size}: {pages} pages")
                listed, prefixes, _ = await _all(
                    subject, version, max_keys=str(size), delimiter="/"
                )
                require(listed == ["a", "d"], f"v{version} by {size}, delimiter: {listed!r}")
                require(prefixes == ["a/", "b/", "c/"], f"v{version} by {size}: {prefixes!r}")


async def check_list_parameters(open_subject: OpenSubject) -> None:
    """prefix, delimiter, start-after and marker select as S3 describes them; 0 keys is a page."""
    keys = ("p/a", "p/b/1", "p/b/2", "p/c", "p", "q/a", "p//x")
    async with open_subject() as subject:
        await _fill(subject, keys)
        page = await _page(subject, prefix="p/")
        listed = [entry.key for entry in page.objects]
        require(listed == ["p//x", "p/a", "p/b/1", "p/b/2", "p/c"], f"prefix: {listed!r}")
        page = await _page(subject, prefix="p/", delimiter="/")
        listed = [entry.key for entry in page.objects]
        require(listed == ["p/a", "p/c"], f"prefix and delimiter: {listed!r}")
        require(page.prefixes == ("p//", "p/b/"), f"prefixes: {page.prefixes!r}")
        page = await _page(subject, delimiter="b/")
        require(page.prefixes == ("p/b/",), f"a delimiter of two bytes: {page.prefixes!r}")
        for version, name in ((2, "start_after"), (1, "marker")):
            page = await _page(subject, version, **{name: "p/b/1"})
            listed = [entry.key for entry in page.objects]
            require(listed == ["p/b/2", "p/c", "q/a"], f"{name}: {listed!r}")
        page = await _page(subject, max_keys="0")
        require(not page.objects and page.next_key is None, "max-keys=0 gave a page")
        page = await _page(subject, max_keys="5000")
        require(len(page.objects) == len(keys), "max-keys above 1000 is not cut to 1000")
        for wrong in ("-1", "x", ""):
            result = await _list(subject, max_keys=wrong)
            if wrong:
                require(not isinstance(result, ReadDone), f"max-keys={wrong} was accepted")


async def check_list_follows_writes(open_subject: OpenSubject) -> None:
    """A listing right after a write or a delete shows it."""
    async with open_subject() as subject:
        for number in range(5):
            etag_of(await subject.put(f"n{number}", b"x"))
            page = await _page(subject)
            require(len(page.objects) == number + 1, f"{len(page.objects)} objects are listed")
        for number in range(5):
            await subject.delete(f"n{number}")
            page = await _page(subject)
            require(len(page.objects) == 4 - number, f"{len(page.objects)} objects are listed")


async def check_buckets(open_subject: OpenSubject) -> None:
    """The bucket is found and listed; one that is not there is 404 NoSuchBucket everywhere."""
    async with open_subject() as subject:
        listed = await subject.store.read(
            subject.operation(ListBuckets(), Kind.LIST, "GET", "", NO_CONDITIONS)
        )
        buckets = listed.reply if isinstance(listed, ReadDone) else None
        if not isinstance(buckets, Buckets):
            raise AssertionError(f"ListBuckets answered {listed!r}")
        require(subject.bucket in dict(buckets.names), f"buckets are {buckets.names!r}")
        for location in (False, True):
            action = HeadBucket(subject.bucket, location)
            method = "GET" if location else "HEAD"
            found = await subject.store.read(
                subject.operation(action, Kind.READ, method, "", NO_CONDITIONS)
            )
            there = isinstance(found, ReadDone) and isinstance(found.reply, BucketFound)
            require(there, f"HeadBucket answered {found!r}")
        missing = (
            HeadBucket("no-such-bucket"),
            HeadBucket("no-such-bucket", location=True),
            ListObjects("no-such-bucket", 2),
        )
        for absent in missing:
            operation = subject.operation(absent, Kind.LIST, "GET", "", NO_CONDITIONS)
            result = await subject.store.read(operation)
            code = code_of(result)
            require(code is Code.NOT_FOUND, f"{absent!r} answered {code}")
