"""Laws of issuers that change under way: who stays keeps its keys, whoever answers by then."""

from __future__ import annotations

from pathlib import Path

from gateway.identity.live_tokens import LiveTokens
from gateway.model.event import Event, IssuerKeysRead
from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant
from gateway.policy.document import PolicySet
from gateway.policy.load import loads
from gateway.system_clock import SystemClock
from tests.services.token_issuer import TokenIssuer

ISSUER = '[[auth.issuers]]\nissuer = "https://id.{0}"\naudience = "{1}"\njwks_file = "{0}.json"\n'


class Told(list[Event]):
    """Keeps what was emitted."""

    def emit(self, event: Event) -> None:
        self.append(event)

    def reads(self) -> list[str]:
        return [event.issuer for event in self if isinstance(event, IssuerKeysRead)]


def policy(directory: Path, *issuers: str) -> PolicySet:
    server = f'[server]\ndata_dir = "{directory}"\n[stores.files]\ntype = "files"\nroot = "f"\n'
    return loads(server + "".join(issuers))


async def test_who_stays_keeps_its_keys(tmp_path: Path) -> None:
    """Its file is gone by now: only the issuers that are new or changed are read."""
    one = TokenIssuer()
    for name in ("tests", "other"):
        (tmp_path / f"{name}.json").write_bytes(one.key_set())
    events = Told()
    tokens = LiveTokens(SystemClock(), events)
    tests, other = ISSUER.format("tests", "fencegate"), ISSUER.format("other", "fencegate")
    (await tokens.prepare(policy(tmp_path, tests)))()
    assert isinstance(tokens.verify(one.token().encode(), 0.0), Grant)
    (tmp_path / "tests.json").unlink()
    (await tokens.prepare(policy(tmp_path, tests, other)))()
    assert events.reads() == ["https://id.tests", "https://id.other"]
    assert isinstance(tokens.verify(one.token().encode(), 0.0), Grant)
    assert isinstance(tokens.verify(one.token(iss="https://id.other").encode(), 0.0), Grant)


async def test_nothing_changes_before_the_commit_and_nobody_stays_by_mistake(
    tmp_path: Path,
) -> None:
    """An issuer that the policy names no more is known no more, with what it had verified."""
    one = TokenIssuer()
    (tmp_path / "tests.json").write_bytes(one.key_set())
    tokens = LiveTokens(SystemClock(), Told())
    (await tokens.prepare(policy(tmp_path, ISSUER.format("tests", "fencegate"))))()
    commit = await tokens.prepare(policy(tmp_path))
    assert isinstance(tokens.verify(one.token().encode(), 0.0), Grant)
    commit()
    refused = tokens.verify(one.token().encode(), 0.0)
    assert isinstance(refused, Problem)
    assert refused.code is Code.UNAUTHENTICATED
    assert await tokens.read() is not None
