"""From a raw request to an operation: the order in which a request is understood.

Target, signature, allow-list, table of body forms, fence fields, then the operation's own fields;
nobody learns more than "not signed" before the signature is verified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from gateway.dialects.fence_fields import fence_fields
from gateway.dialects.s3.bodies import check_no_body, one_value, open_body, sent_digests
from gateway.dialects.s3.canonical import Pair, has_bad_escape, parse_query
from gateway.dialects.s3.conditions import read_conditions, write_conditions
from gateway.dialects.s3.credentials import PRESIGN_PARAMETERS, Auth
from gateway.dialects.s3.listing import ListingQuery, read_listing
from gateway.dialects.s3.metadata import stored_fields
from gateway.dialects.s3.operations import RESPONSE_OVERRIDES, Name, classify
from gateway.dialects.s3.payload import Payload, accepts, read_payload
from gateway.dialects.s3.refused import RefusedError, not_fenced, refused
from gateway.dialects.s3.target import Target, read_target
from gateway.dialects.s3.verify import Identity, verify
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.object_action import (
    DeleteObject,
    Fields,
    GetObject,
    HeadBucket,
    ListBuckets,
    PutObject,
)
from gateway.model.operation import Action, Kind, Operation
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.worker import WorkerKey
from gateway.ports.body import Body
from gateway.ports.dialect import Parsed, RawRequest

_VISIBLE: Final = re.compile(rb"[\x21-\x7e]{1,128}")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Context:
    """What rendering needs to remember of a request: its listing, or its response-* overrides."""

    listing: ListingQuery | None = None
    overrides: Fields = ()


@dataclass(frozen=True, slots=True)
class _Understood:
    """The part of a request that depends on the operation."""

    kind: Kind
    action: Action
    body: Body
    conditions: Conditions = NO_CONDITIONS
    context: Context = Context()


def parse_request(
    request: RawRequest, *, store: str, keys: Mapping[str, WorkerKey] | None, region: str
) -> Parsed:
    """Understand a request. Raises `RefusedError`. `keys` None: authentication is off."""
    target = read_target(request.path)
    if has_bad_escape(request.query):
        raise refused("InvalidURI", "a percent sign in the query must start an escape (%25)")
    query = parse_query(request.query)
    identity = _identify(request, query, store=store, keys=keys, region=region)
    query = [pair for pair in query if pair[0] not in PRESIGN_PARAMETERS]
    name = classify(request.method, target, query, [field for field, _ in request.fields])
    form = read_payload(identity.payload)
    if form is None or not accepts(name, identity.auth, form):
        raise not_fenced(
            f"{name.value} with {identity.auth.value} authentication and this body form"
        )
    fence = fence_fields(request.fields)
    if isinstance(fence, Problem):
        raise RefusedError(fence)
    understood = _understand(name, request, target, query, identity, form)
    operation = Operation(
        resource=Resource(store, target.canonical),
        route="/" + target.canonical,
        kind=understood.kind,
        method=request.method,
        action=understood.action,
        token=fence[0],
        holder=fence[1],
        conditions=understood.conditions,
        retry_key=_retry_key(request),
        request_id=request.request_id,
        grant=identity.grant,
    )
    return Parsed(operation, understood.body, understood.context)


def _identify(
    request: RawRequest,
    query: Sequence[Pair],
    *,
    store: str,
    keys: Mapping[str, WorkerKey] | None,
    region: str,
) -> Identity:
    if keys is not None:
        return verify(request, query, keys=keys, store=store, region=region)
    payload = one_value(request, b"x-amz-content-sha256")
    return Identity(Auth.OFF, None, payload.decode("latin-1") if payload is not None else None)


def _understand(
    name: Name,
    request: RawRequest,
    target: Target,
    query: Sequence[Pair],
    identity: Identity,
    form: Payload,
) -> _Understood:
    if name is Name.PUT_OBJECT:
        return _put(request, target, identity, form)
    check_no_body(request, identity, form)
    bucket = target.bucket
    match name:
        case Name.GET_OBJECT | Name.HEAD_OBJECT:
            return _get(request, target, query)
        case Name.DELETE_OBJECT:
            action = DeleteObject(bucket, target.key)
            return _Understood(Kind.DELETE, action, request.body, write_conditions(request))
        case Name.LIST_OBJECTS | Name.LIST_OBJECTS_V2:
            listing = read_listing(1 if name is Name.LIST_OBJECTS else 2, query)
            context = Context(listing=listing)
            return _Understood(Kind.LIST, listing.action(bucket), request.body, context=context)
        case Name.LIST_BUCKETS:
            return _Understood(Kind.LIST, ListBuckets(), request.body)
        case Name.HEAD_BUCKET | Name.GET_BUCKET_LOCATION:
            location = name is Name.GET_BUCKET_LOCATION
            return _Understood(Kind.READ, HeadBucket(bucket, location), request.body)
        case _:
            assert_never(name)


def _put(request: RawRequest, target: Target, identity: Identity, form: Payload) -> _Understood:
    conditions = write_conditions(request)
    metadata = stored_fields(request)
    body, length, sha256 = open_body(request, identity, form)
    digests = sent_digests(request)
    action = PutObject(target.bucket, target.key, length, metadata, sha256, digests)
    return _Understood(Kind.WRITE, action, body, conditions)


def _get(request: RawRequest, target: Target, query: Sequence[Pair]) -> _Understood:
    # If-Range is answered with the whole object, which RFC 9110 section 13.1.5 always allows:
    # a range of a newer version would be glued to the older bytes the client has.
    whole = bool(request.values(b"if-range"))
    action = GetObject(
        target.bucket,
        target.key,
        head=request.method == "HEAD",
        range_=None if whole else _text(request, b"range"),
        if_modified_since=_text(request, b"if-modified-since"),
        if_unmodified_since=_text(request, b"if-unmodified-since"),
    )
    context = Context(overrides=_overrides(query))
    return _Understood(Kind.READ, action, request.body, read_conditions(request), context)


def _text(request: RawRequest, name: bytes) -> str | None:
    value = one_value(request, name)
    return None if value is None else value.decode("latin-1")


def _overrides(query: Sequence[Pair]) -> Fields:
    """Read the response-* parameters; a line break in one would forge fields of the answer."""
    fields = []
    for name, value in query:
        if name in RESPONSE_OVERRIDES:
            if _CONTROL.search(value):
                raise refused(
                    "InvalidArgument", f"{name.decode()} must not hold control characters"
                )
            fields.append((RESPONSE_OVERRIDES[name], value.decode("latin-1")))
    return tuple(fields)


def _retry_key(request: RawRequest) -> str | None:
    """Read the SDK's id of the logical request, which its retries repeat."""
    value = one_value(request, b"amz-sdk-invocation-id")
    if value is None or not _VISIBLE.fullmatch(value):
        return None
    return value.decode("ascii")
