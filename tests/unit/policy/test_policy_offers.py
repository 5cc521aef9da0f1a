"""Laws of handing a policy to workers: who starts late goes by what the others go by."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.policy.complaint import PolicyError
from gateway.policy.load import load
from gateway.policy.offers import Offers
from gateway.policy.texts import Texts, from_line, line_of

OLD, NEW, NEWER = (Texts({"p": text}) for text in ("old", "new", "newer"))


def handed(offers: Offers, worker: int) -> list[str]:
    return [texts.read(Path("p")) for _, texts in offers.joined(worker)]


def test_an_offer_is_in_force_once_a_worker_has_taken_it() -> None:
    """A worker that starts before gets the old texts and the offer, one behind it the new alone."""
    offers = Offers(OLD)
    number = offers.offer(NEW, {0, 1})
    assert handed(offers, 2) == ["old", "new"]
    offers.answered(0, number, taken=True)
    assert handed(offers, 3) == ["new"]
    offers.answered(1, number, taken=False)
    assert handed(offers, 3) == ["new"]


def test_an_offer_that_all_refuse_is_forgotten() -> None:
    """Nobody who starts later is handed it."""
    offers = Offers(OLD)
    number = offers.offer(NEW, {0, 1})
    offers.answered(0, number, taken=False)
    assert handed(offers, 2) == ["old", "new"], "one may take it yet"
    offers.answered(1, number, taken=False)
    offers.answered(2, number, taken=False)
    assert handed(offers, 3) == ["old"]


def test_an_offer_outlives_who_was_asked() -> None:
    """A hang-up while no worker runs, or while the last one ends, is not lost."""
    offers = Offers(OLD)
    offers.offer(NEW, ())
    assert handed(offers, 0) == ["old", "new"]
    offers.left(0)
    assert handed(offers, 0) == ["old", "new"]


def test_offers_keep_their_order() -> None:
    """Who takes the second has put the first behind it, whatever others still say of the first."""
    offers = Offers(OLD)
    first, second = offers.offer(NEW, {0, 1}), offers.offer(NEWER, {0, 1})
    assert handed(offers, 2) == ["old", "new", "newer"]
    offers.answered(0, second, taken=True)
    offers.answered(1, first, taken=True)
    assert handed(offers, 3) == ["newer"]


def test_texts_are_handed_over_as_they_were(tmp_path: Path) -> None:
    """Edited or removed meanwhile: neither changes what was read, nor the place of a mistake."""
    good, gone = tmp_path / "good.toml", tmp_path / "gone.toml"
    good.write_text('[stores.f]\ntype = "files"\nroo = "${SECRET}\u2028"\n')
    number, texts = from_line(line_of(7, Texts.of([good, gone])))
    good.write_text("edited")
    gone.write_text("made")
    assert number == 7
    with pytest.raises(PolicyError, match=r"gone\.toml: no such file"):
        load([good, gone], environ={}, read=texts.read)
    with pytest.raises(PolicyError, match=r"good\.toml:3: stores\.f\.roo"):
        load([good], environ={"SECRET": "s"}, read=texts.read)
    assert "${SECRET}" in texts.read(good), "secrets are filled in by who serves"
