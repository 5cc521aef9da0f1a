"""The Dockerfile, read without an engine: its sources exist, its image is what we promise."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """The instructions in order, continuation lines joined, comments left out."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    pairs = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(name.upper(), " ".join(rest.split())) for name, _, rest in pairs]


def stages(found: list[Instruction]) -> list[list[Instruction]]:
    """The instructions by stage; what stands before the first FROM belongs to none."""
    parts: list[list[Instruction]] = []
    for instruction in found:
        if instruction[0] == "FROM":
            parts.append([])
        if parts:
            parts[-1].append(instruction)
    return parts


def context_sources(found: list[Instruction]) -> list[str]:
    """What is copied from the checkout: the sources of every COPY without --from."""
    copies = (rest.split() for name, rest in found if name == "COPY")
    return [source for words in copies if "--from=" not in words[0] for source in words[:-1]]


def unmet_promises(text: str) -> list[str]:
    """The promises that a Dockerfile does not keep."""
    found = instructions(text)
    parts = stages(found)
    final = dict(parts[-1])
    final_runs = " ".join(rest for name, rest in parts[-1] if name == "RUN")
    installs = [rest for name, rest in found if name == "RUN" and "pip" in rest]
    loose = [
        command
        for rest in installs
        for command in rest.split("&&")
        if re.search(r"pip (install|wheel)", command)
        and not ("--require-hashes" in command or "--no-index" in command)
    ]
    promises = {
        "two stages or more": len(parts) >= 2,
        "the final stage builds nothing": not re.search("pip|apt", final_runs),
        "each install is hash-locked or offline": bool(installs) and not loose,
        "a user that is not root": final.get("USER", "root") not in {"root", "0"},
        "a health check of /healthz": "/healthz" in final.get("HEALTHCHECK", ""),
        "data on a volume": "/data" in final.get("VOLUME", ""),
        "the ports of the shipped policies": {"8080", "8443", "9000"}
        == set(final.get("EXPOSE", "").split()),
        "it serves": final.get("ENTRYPOINT") == '["fencegate", "serve"]',
        "no secret is baked in": not re.search(r"(KEY|SECRET|PASSWORD)\w*=", text),
    }
    return [promise for promise, kept in promises.items() if not kept]


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def test_the_image_is_what_we_promise(dockerfile: str) -> None:
    """Multi-stage, hash-locked, non-root, with a health check and its data on a volume."""
    assert unmet_promises(dockerfile) == []


@pytest.mark.parametrize(
    "line, instead, promise",
    [
        ("USER fencegate", "USER root", "a user that is not root"),
        ("USER fencegate\n", "", "a user that is not root"),
        ("--require-hashes", "", "each install is hash-locked or offline"),
        ("/healthz", "/", "a health check of /healthz"),
        ("EXPOSE 8080 9000 8443", "EXPOSE 8080", "the ports of the shipped policies"),
        ('VOLUME ["/data", "/var/lib/fencegate"]', "", "data on a volume"),
        ('ENTRYPOINT ["fencegate", "serve"]', "", "it serves"),
        ("USER fencegate", "ENV DEMO_SECRET=x\nUSER fencegate", "no secret is baked in"),
    ],
)
def test_a_broken_image_is_caught(dockerfile: str, line: str, instead: str, promise: str) -> None:
    """Negative control: the reader finds each promise broken."""
    assert line in dockerfile
    assert unmet_promises(dockerfile.replace(line, instead)) == [promise]


def test_every_copied_file_exists_and_is_in_the_context(dockerfile: str) -> None:
    """Each COPY source is in the checkout, and .dockerignore lets it through."""
    sources = context_sources(instructions(dockerfile))
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    assert {"gateway", "policies", "requirements/run.txt"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if source not in allowed] == []


def test_its_default_policy_is_shipped(dockerfile: str) -> None:
    """The policy that the container starts with is one of policies/."""
    command = dict(instructions(dockerfile))["CMD"]
    name = re.fullmatch(r'\["/etc/fencegate/policies/(\w+\.toml)"\]', command)
    assert name is not None
    assert (ROOT / "policies" / name[1]).exists()


@pytest.mark.parametrize("name", ["container", "production"])
def test_a_shipped_policy_is_healthy_and_keeps_its_marks(dockerfile: str, name: str) -> None:
    """Where it listens the image looks after its health, and where its marks are is a volume."""
    policy = tomllib.loads((ROOT / "policies" / f"{name}.toml").read_text())
    final = dict(stages(instructions(dockerfile))[-1])
    scheme = "https" if "tls" in policy else "http"
    port = policy["server"]["listen"].rpartition(":")[2]
    assert f"{scheme}://127.0.0.1:{port}/healthz" in final["HEALTHCHECK"]
    assert f'"{policy["server"]["data_dir"]}"' in final["VOLUME"]


def test_the_final_stage_runs_a_supported_python(dockerfile: str) -> None:
    """One Python version for both stages, and a supported one."""
    version = re.search(r"ARG PYTHON_VERSION=3\.(\d+)", dockerfile)
    assert version is not None
    assert int(version[1]) in {11, 12, 13}
    assert dockerfile.count("FROM python:${PYTHON_VERSION}-slim") == 2
