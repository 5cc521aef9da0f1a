"""The two S3 servers: the differences that a start-up probe rests on are really there."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from tests.services.object_stores import ObjectStore

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def status_of(error: pytest.ExceptionInfo[ClientError]) -> int:
    return error.value.response["ResponseMetadata"]["HTTPStatusCode"]


def creators(client: "S3Client", bucket: str, key: str, count: int) -> list[int]:
    """Who of `count` concurrent creators with If-None-Match: * was told that it created the key."""

    def create(number: int) -> bool:
        try:
            client.put_object(Bucket=bucket, Key=key, Body=str(number).encode(), IfNoneMatch="*")
        except ClientError:
            return False
        return True

    with ThreadPoolExecutor(count) as threads:
        won = list(threads.map(create, range(count)))
    return [number for number, winner in enumerate(won) if winner]


def test_ministack_creates_once(ministack: ObjectStore, ministack_bucket: str) -> None:
    """Of sixteen creators with If-None-Match: * exactly one wins, and its bytes are there."""
    client = ministack.client(max_pool_connections=16)
    winners = creators(client, ministack_bucket, "k", 16)
    assert len(winners) == 1
    stored = client.get_object(Bucket=ministack_bucket, Key="k")["Body"].read()
    assert stored == str(winners[0]).encode()
    client.close()


def test_ministack_honours_if_match(ministack: ObjectStore, ministack_bucket: str) -> None:
    """An outdated ETag is refused with 412, an absent key with 404, the current one is written."""
    client, bucket = ministack.client(), ministack_bucket
    first = client.put_object(Bucket=bucket, Key="k", Body=b"1")["ETag"]
    second = client.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=first)["ETag"]
    with pytest.raises(ClientError) as stale:
        client.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=first)
    assert status_of(stale) == 412
    with pytest.raises(ClientError) as absent:
        client.put_object(Bucket=bucket, Key="none", Body=b"3", IfMatch=first)
    assert status_of(absent) == 404
    with pytest.raises(ClientError) as stale_delete:
        client.delete_object(Bucket=bucket, Key="k", IfMatch=first)
    assert status_of(stale_delete) == 412
    client.delete_object(Bucket=bucket, Key="k", IfMatch=second)
    client.close()


@pytest.mark.parametrize("key", ["a//b", "../up", "a b+c%2F", "ключ", "q?x=1#f", "trailing/"])
def test_ministack_keeps_odd_keys(ministack: ObjectStore, ministack_bucket: str, key: str) -> None:
    """A key comes back byte for byte, so that a gateway in front of it can be tested for that."""
    client = ministack.client()
    client.put_object(Bucket=ministack_bucket, Key=key, Body=b"x")
    listed = client.list_objects_v2(Bucket=ministack_bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == [key]
    client.close()


def test_rclone_ignores_conditions(rclone_s3: ObjectStore, rclone_bucket: str) -> None:
    """It accepts every creator: the store that a probe has to find out."""
    client = rclone_s3.client()
    assert creators(client, rclone_bucket, "k", 4) == [0, 1, 2, 3]
    client.close()


def test_rclone_verifies_signatures(rclone_s3: ObjectStore) -> None:
    """A wrong secret is refused: a gateway that re-signs wrongly is found out here."""
    forger = ObjectStore(rclone_s3.endpoint, rclone_s3.access_key_id, "wrong")
    client = forger.client()
    with pytest.raises(ClientError) as refused:
        client.list_buckets()
    assert status_of(refused) == 403
    client.close()
