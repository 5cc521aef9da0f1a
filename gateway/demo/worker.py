"""One worker of the demo: holds a token, writes a file, an object and a row, and tells how it went.

Run as a process of its own: `python -m gateway.demo.worker NAME TOKEN HTTP_URL S3_URL`. It prints
one JSON line per event, and waits for a line on its standard input between its two rounds.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any, Final

import aioboto3
import httpx
from botocore.config import Config
from botocore.exceptions import ClientError

FILE: Final = "/files/reports/eu/july.txt"
BUCKET: Final = "demo"
KEY: Final = "july.txt"
ROW: Final = "/db/jobs?id=eq.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """How one write ended: the HTTP status and, when it was refused, the gateway's code."""

    target: str
    status: int
    code: str | None


def _tell(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


async def _file(client: httpx.AsyncClient, text: str) -> Answer:
    answer = await client.put(FILE, content=text)
    return Answer("file", answer.status_code, _code(answer))


async def _row(client: httpx.AsyncClient, text: str) -> Answer:
    answer = await client.patch(ROW, json={"state": "done", "result": text})
    return Answer("row", answer.status_code, _code(answer))


def _code(answer: httpx.Response) -> str | None:
    return None if answer.is_success else str(answer.json()["code"])


async def _object(s3: Any, text: str) -> Answer:
    try:
        answer = await s3.put_object(Bucket=BUCKET, Key=KEY, Body=text.encode())
    except ClientError as refused:
        status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
        return Answer("object", status, refused.response["Error"]["Code"])
    return Answer("object", answer["ResponseMetadata"]["HTTPStatusCode"], None)


async def _round(http: httpx.AsyncClient, s3: Any, text: str) -> None:
    for answer in (await _file(http, text), await _object(s3, text), await _row(http, text)):
        _tell(event="wrote", target=answer.target, status=answer.status, code=answer.code)


def _s3(url: str) -> Any:
    """An unmodified S3 client, pointed at the gateway."""
    session = aioboto3.Session(
        aws_access_key_id="demo", aws_secret_access_key="demo-secret", region_name="us-east-1"
    )
    config = Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"})
    return session.client("s3", endpoint_url=url, config=config)


async def stored_object(url: str) -> str:
    """What the object holds in the end."""
    async with _s3(url) as s3:
        answer = await s3.get_object(Bucket=BUCKET, Key=KEY)
        return str((await answer["Body"].read()).decode())


async def _work(name: str, token: str, http_url: str, s3_url: str) -> None:
    def add_token(request: Any, **_: Any) -> None:
        request.headers["X-Fence-Token"] = token

    fence = {"X-Fence-Token": token}
    async with (
        httpx.AsyncClient(base_url=http_url, headers=fence, timeout=30) as http,
        _s3(s3_url) as s3,
    ):
        s3.meta.events.register("before-sign.s3", add_token)
        await _round(http, s3, f"first draft by {name}")
        _tell(event="computing")
        await asyncio.to_thread(sys.stdin.readline)
        await _round(http, s3, f"final text by {name}")
    _tell(event="ended")


if __name__ == "__main__":
    asyncio.run(_work(*sys.argv[1:5]))
