"""The messages that must be refused (RFC 9110, RFC 9112, and the gateway's own limits)."""

from __future__ import annotations

TOKEN = b"X-Fence-Token: 7\r\n"
HOST = b"Host: h\r\n"


def put(
    fields: bytes = b"",
    body: bytes = b"",
    *,
    line: bytes = b"PUT /k HTTP/1.1\r\n",
    host: bytes = HOST,
    token: bytes = TOKEN,
) -> bytes:
    """The base message: PUT /k with one Host and one valid token, then the given fields."""
    return line + host + token + fields + b"\r\n" + body


def chunked(body: bytes) -> bytes:
    return put(b"Transfer-Encoding: chunked\r\n", body)


END = b"0\r\n\r\n"
ABC = b"3\r\nabc\r\n0\r\n\r\n"

MUST_REJECT: dict[str, bytes] = {
    "E01 length and chunked": put(b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", ABC),
    "E02 two lengths": put(b"Content-Length: 3\r\nContent-Length: 4\r\n", b"abcd"),
    "E03 length +3": put(b"Content-Length: +3\r\n", b"abc"),
    "E04 length 0x3": put(b"Content-Length: 0x3\r\n", b"abc"),
    "E05 length 1_0": put(b"Content-Length: 1_0\r\n", b"abcdefghij"),
    "E06 length empty": put(b"Content-Length: \r\n", b""),
    "E07 length -1": put(b"Content-Length: -1\r\n", b""),
    "E08 length overflows": put(b"Content-Length: " + b"9" * 23 + b"\r\n", b"abc"),
    "E09 blank before colon": put(b"Content-Length : 3\r\n", b"abc"),
    "E10 chunked twice": put(b"Transfer-Encoding: chunked\r\n" * 2, ABC),
    "E11 xchunked": put(b"Transfer-Encoding: xchunked\r\n", ABC),
    "E12 identity and length": put(b"Transfer-Encoding: identity\r\nContent-Length: 3\r\n", b"abc"),
    "E13 gzip, chunked": put(b"Transfer-Encoding: gzip, chunked\r\n", ABC),
    "E14 chunked, identity": put(b"Transfer-Encoding: chunked, identity\r\n", ABC),
    "E15 vertical tab": put(b"Transfer-Encoding: \x0bchunked\r\n", ABC),
    "E16 chunked in 1.0": put(b"Transfer-Encoding: chunked\r\n", ABC, line=b"PUT /k HTTP/1.0\r\n"),
    "E17 chunk size 0x3": chunked(b"0x3\r\nabc\r\n" + END),
    "E18 chunk size +3": chunked(b"+3\r\nabc\r\n" + END),
    "E19 chunk size 0_3": chunked(b"0_3\r\nabc\r\n" + END),
    "E20 chunk lines end in LF": chunked(b"3\nabc\n0\n\n"),
    "E21 no CRLF behind chunk": chunked(b"3\r\nabcXX" + END),
    "E22 LF in chunk extension": chunked(b"3;a\nb\r\nabc\r\n" + END),
    "E23 CR in chunk extension": chunked(b"3;a\rb\r\nabc\r\n" + END),
    "E24 chunk size empty": chunked(b"\r\nabc\r\n" + END),
    "E25 chunk size overflows": chunked(b"10000000000000003\r\nabc\r\n" + END),
    "E26 head ends in LF": put(b"Content-Length: 3\r\n", b"abc").replace(b"\r\n", b"\n"),
    "E27 CR in value": put(b"X-A: b\rX-Fence-Token: 9\r\nContent-Length: 3\r\n", b"abc"),
    "E28 NUL in value": put(b"X-A: b\0c\r\nContent-Length: 3\r\n", b"abc"),
    "E29 folded field": put(b"X-A: b\r\n X-Fence-Token: 9\r\nContent-Length: 3\r\n", b"abc"),
    "E30 first field starts with a blank": put(
        b"Content-Length: 3\r\n", b"abc", host=b" X-Fence-Token: 9\r\nHost: h\r\n"
    ),
    "E31 no Host": put(b"Content-Length: 3\r\n", b"abc", host=b""),
    "E32 two Hosts": put(b"Content-Length: 3\r\n", b"abc", host=b"Host: a\r\nHost: b\r\n"),
    "E33 Host with path": put(b"Content-Length: 3\r\n", b"abc", host=b"Host: a/b?c\r\n"),
    "E34 fragment": put(b"Content-Length: 3\r\n", b"abc", line=b"PUT /k#f HTTP/1.1\r\n"),
    "E35 HTTP/0.9": b"GET /k\r\n\r\n",
    "E36 HTTP/9.9": put(b"Content-Length: 3\r\n", b"abc", line=b"PUT /k HTTP/9.9\r\n"),
    "E37 one field of 70 KB": put(b"X-A: " + b"a" * 70_000 + b"\r\nContent-Length: 3\r\n", b"abc"),
    "E38 1500 fields": put(b"X-A: b\r\n" * 1500 + b"Content-Length: 3\r\n", b"abc"),
}

THREE = b"Content-Length: 3\r\n"

REFUSED_AS_WELL: dict[str, bytes] = {
    "two equal lengths": put(THREE * 2, b"abc"),
    "length list": put(b"Content-Length: 3, 3\r\n", b"abc"),
    "empty element before chunked": put(b"Transfer-Encoding: ,chunked\r\n", ABC),
    "trailer field": chunked(b"3\r\nabc\r\n0\r\nX-A: b\r\n\r\n"),
    "trailer token": chunked(b"3\r\nabc\r\n0\r\nX-Fence-Token: 999\r\n\r\n"),
    "absolute target": put(THREE, b"abc", line=b"PUT http://169.254.169.254/k HTTP/1.1\r\n"),
    "authority target": b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n",
    "asterisk target": b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "token twice": put(THREE + TOKEN, b"abc"),
    "token list": put(THREE, b"abc", token=b"X-Fence-Token: 7, 8\r\n"),
    "token 1e3": put(THREE, b"abc", token=b"X-Fence-Token: 1e3\r\n"),
    "token full-width": put(THREE, b"abc", token=b"X-Fence-Token: \xef\xbc\x97\r\n"),
    "token superscript": put(THREE, b"abc", token="X-Fence-Token: ²\r\n".encode()),
    "token superscript latin-1": put(THREE, b"abc", token=b"X-Fence-Token: \xb2\r\n"),
    "token no-break space": put(THREE, b"abc", token=b"X-Fence-Token: \xa07\r\n"),
    "token leading zero": put(THREE, b"abc", token=b"X-Fence-Token: 07\r\n"),
    "token zero": put(THREE, b"abc", token=b"X-Fence-Token: 0\r\n"),
    "token above 2^63-1": put(THREE, b"abc", token=b"X-Fence-Token: 9223372036854775808\r\n"),
    "token empty": put(THREE, b"abc", token=b"X-Fence-Token:\r\n"),
    "token alias": put(THREE + b"X_Fence_Token: 9\r\n", b"abc"),
    "condition alias": put(THREE + b"If_Match: *\r\n", b"abc"),
    "token named in Connection": put(THREE + b"Connection: X-Fence-Token\r\n", b"abc"),
    "token alias named in Connection": put(THREE + b"Connection: x_fence_token\r\n", b"abc"),
    "authorization named in Connection": put(
        THREE + b"Connection: close, Authorization\r\n", b"abc"
    ),
    "condition named in Connection": put(THREE + b"Connection: if-match\r\n", b"abc"),
    "amz field named in Connection": put(THREE + b"Connection: x-amz-date\r\n", b"abc"),
    "high byte in path": put(THREE, b"abc", line=b"PUT /k\xc3\xa9 HTTP/1.1\r\n"),
    "control byte in path": put(THREE, b"abc", line=b"PUT /k\x01 HTTP/1.1\r\n"),
    "delete byte in path": put(THREE, b"abc", line=b"PUT /k\x7f HTTP/1.1\r\n"),
    "high byte in query": put(THREE, b"abc", line=b"PUT /k?\xff HTTP/1.1\r\n"),
    "NUL escape": put(THREE, b"abc", line=b"PUT /k%00 HTTP/1.1\r\n"),
    "bad escape": put(THREE, b"abc", line=b"PUT /k%4 HTTP/1.1\r\n"),
    "bad escape digits": put(THREE, b"abc", line=b"PUT /k%zz HTTP/1.1\r\n"),
    "bad escape in query": put(THREE, b"abc", line=b"PUT /k?a=% HTTP/1.1\r\n"),
    "lower-case method": put(THREE, b"abc", line=b"put /k HTTP/1.1\r\n"),
    "method override": put(THREE + b"X-HTTP-Method-Override: DELETE\r\n", b"abc"),
    "HTTP/1.2": put(THREE, b"abc", line=b"PUT /k HTTP/1.2\r\n"),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "other expectation": put(THREE + b"Expect: 200-ok\r\n", b"abc"),
    "field name with a blank": put(THREE + b"X A: b\r\n", b"abc"),
    "Host with user": put(THREE, b"abc", host=b"Host: u@h\r\n"),
    "Host empty": put(THREE, b"abc", host=b"Host:\r\n"),
}
