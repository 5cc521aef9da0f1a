"""What fuzzing starts from: one corpus and one dictionary for each family of laws."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.edge.must_reject import MUST_REJECT, REFUSED_AS_WELL

_POLICIES = Path(__file__).parents[2] / "policies"
_DIGEST = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

HEADS = [
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\r\r\r\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /files/a%2Fb?x=1 HTTP/1.1\r\nHost: h:80\r\nConnection: keep-alive\r\n\r\n",
    b"PUT /files/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-Fence-Token: 5\r\n\r\nabc",
    b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Fence-Token: 7\r\n\r\n"
    b"3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /db/t HTTP/1.0\r\nContent-Length: 2\r\nX-Fence-Holder: me\r\n\r\n{}",
    b"PUT /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
    b"PUT /a HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    b"Content-Length: 1\r\n\r\na",
    *(message for message in (MUST_REJECT | REFUSED_AS_WELL).values() if len(message) < 4096),
]
FIELDS = [
    b"Host: h",
    b"host: other",
    b"Host : h",
    b"Content-Length: 3",
    b"Content-Length: 0",
    b"content-length:\t3 ",
    b"Content-Length: 03",
    b"Content-Length: 3, 3",
    b"Content-Length: +3",
    b"Content_Length: 4",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer_Encoding: chunked",
    b"X-Fence-Token: 5",
    b"x-fence-token: 9223372036854775807",
    b"X-Fence-Token: 9223372036854775808",
    b"X-Fence-Token: 5, 6",
    b"X-Fence-Token: +5",
    b"X-Fence-Token: 0",
    b"X-Fence-Token: 05",
    b"X-Fence-Token: 5_0",
    b"X-Fence-Token:",
    b"X_Fence_Token: 9",
    b"X-Fence-Holder: me",
    b"Connection: close",
    b"Connection: keep-alive, X-Fence-Token",
    b"Connection: Content-Length",
    b"Connection: upgrade, HTTP2-Settings",
    b"Connection: x-fence_token",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
    b"If-Match: *",
    b"X-Amz-Date: 1",
    b"X-A: b\r\n c: d",
    b"X-A: \xff",
    b"X-A: b\rc",
    b"X-A: b\0",
    b": empty",
]
LINES = [
    b"GET / HTTP/1.1",
    b"PUT /k HTTP/1.1",
    b"PUT /k HTTP/1.0",
    b"DELETE /files/a%2fb?c=d HTTP/1.1",
    b"POST /db/t?a=eq.1#f HTTP/1.1",
    b"put /k HTTP/1.1",
    b"PUT  /k HTTP/1.1",
    b"PUT /k HTTP/2.0",
    b"PUT /k\xc3\xa9 HTTP/1.1",
    b"PUT /%zz HTTP/1.1",
    b"PUT http://h/k HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET /k",
]
BODIES = [
    b"",
    b"abc",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"3;x=y\r\nabc\r\n0\r\n\r\n",
    b"0x3\r\nabc\r\n0\r\n\r\n",
    b"3\r\nabc\r\n0\r\nX-Fence-Token: 9\r\n\r\n",
    b"3\nabc\n0\n\n",
    b"ffffffffffffffff3\r\nabc\r\n0\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n",
    b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n",
]
TOKENS = [b"1", b"5", b"9223372036854775807", b"9223372036854775808", b"05", b"+5", b"5_0", b" 5"]
TOKENS += ["٣".encode(), b"\xb2", b"5\n", b"5,6", b"", b"1e3", b"0x5"]
TOKENS += [b"5." + b"aZ0-_" * 5, b"5." + b"a" * 22, b"5." + b"a" * 21, b"5." + b"a" * 256]
TOKENS += [b"5." + b"a" * 257, b"5." + b"a" * 21 + b"=", b"5.", b".", b"05." + b"a" * 22]
PATHS = [b"a", b"a/b", b"a%2Fb", b"%61", b"a/../b", b"a/%2e%2e/b", b"a//b", b"a%2F/b", b"a/."]
PATHS += [b"a%5Cb", b"a\\b", b"%00", b"a%2", "é".encode(), b"%C3%A9", b"%c3%a9", b"a+b", b"a%2Bb"]
PATHS += [b"", b"/", b"a/", b"%25%32%65", b"%ff", b"a;b", b"a%3Bb", b"%2E", b"..", b"~", b"%7E"]
TARGETS = [one + b"\0" + other for one in PATHS for other in PATHS[:4]]
PATTERNS = [
    b"/files/{a}/{b*}\0x/{a}/{b*}\0/files/p/q/r\0/files/p%2Fq/r",
    b"/{a}\0{a}\0/%61\0/a",
    b"/{rest*}\0all/{rest*}\0/\0//",
    b"/a/b\0s\0/a/%62\0/a/b",
    b"/{a}/{b}\0{a}-x/{b}\0/p/q\0/p-x/q",
    b"/{a*}\0z~sha256-{a*}\0/" + b"p" * 600 + b"\0/q",
]
CREDENTIALS = [
    b"\0AWS4-HMAC-SHA256 Credential=demo/20270115/us-east-1/s3/aws4_request, "
    b"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
    + b"0" * 64
    + b"\x0020270115T080000Z\0"
    + _DIGEST,
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=demo%2F20270115%2Fus-east-1%2Fs3%2F"
    b"aws4_request&X-Amz-Date=20270115T080000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
    b"&X-Amz-Signature=" + b"0" * 64,
    b"AWSAccessKeyId=demo&Signature=x&Expires=1",
    b"\0AWS demo:x",
]
SIGNED = [
    b"key\0\0name\0value\0x",
    b"a%2Fb/c//d\0list-type=2&prefix=a\0n\0two  blanks\0other",
    b"a+b%20c~\0uploads=\0\0\0",
    b"%C3%A9\0b=2&a=1&a=0\0z\0v\0&",
]
DOCUMENTS = [path.read_bytes() for path in sorted(_POLICIES.glob("*.toml"))]
DOCUMENTS.append(
    b'[server]\nlisten = "127.0.0.1:8080"\ndata_dir = "d"\n[registry]\ntype = "memory"\n'
    b'[stores.f]\ntype = "files"\ndialect = "http"\nmount = "/f"\nroot = "f"\n'
    b'[[rules]]\nstore = "f"\nmatch = "/f/{a}"\nscope = "x/{a}"\n'
)
POLICY_LINES = [
    b"[stores.x]",
    b"[[rules]]",
    b"[stores]",
    b"[[stores]]",
    b"[server]",
    b"[auth]",
    b'keys = "no"',
    b"listen = 7",
    b'listen = "127.0.0.1"',
    b'type = "fils"',
    b"type = []",
    b'match = "/{a}/{a}"',
    b'match = "/files/{x*}"',
    b'scope = "{x*}"',
    b'scope = ["a"]',
    b'mode = "shadw"',
    b"settle_ms = -1",
    b"settle_ms = 1e400",
    b"settle_ms = 99999999999999999999999",
    b"max_head_bytes = nan",
    b"at = 1979-05-27",
    b'root = "${HOM}"',
    b'root = "${HOME"',
    b'"" = 1',
    b'"a\\nb" = 1',
    b"a.b.c = 1",
    b"x = {y = {z = [{}]}}",
    b'stores = ["nobody"]',
]
