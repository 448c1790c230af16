"""Blocks of evaluation seeds, and the ledger of those that were used."""

from pathlib import Path

import pytest

from mgp.errors import ConfigError
from mgp.evaluation.csv_table import read
from mgp.evaluation.seeds import (
    DEVELOPMENT,
    IN_TRAINING,
    STUDY,
    block_of,
    block_seeds,
    claim,
    digest,
    entries,
    open_edition,
)

COMMIT = "0123456789ab"


@pytest.fixture
def ledger(tmp_path) -> Path:
    return tmp_path / "results" / "blocks.csv"


def ask(ledger: Path, method="MGP-Long", preset="a", task="assembly", table="metaworld", **rest) -> int:
    return claim(ledger, table, method, task, preset, COMMIT, **rest)


def test_blocks_are_apart():
    assert block_seeds(0, 50) == range(100_000, 100_050)
    assert block_seeds(3, 1000) == range(103_000, 104_000)
    assert block_of(block_seeds(3, 1000)) == 3
    assert block_of([100_999, 101_000]) is None
    assert block_of(block_seeds(0, 2)) == 0
    for purpose in (DEVELOPMENT, IN_TRAINING, STUDY, [50_000], []):
        assert block_of(purpose) is None
    with pytest.raises(ConfigError, match="1001 episodes do not fit a test block: ask for 1 to 1000"):
        block_seeds(0, 1001)
    with pytest.raises(ConfigError, match="-1 is negative"):
        block_seeds(-1, 5)


def test_methods_of_an_edition_share_a_block_and_the_same_again_is_the_same(ledger):
    assert [ask(ledger, method, "a" + method) for method in ("MGP-Short", "MGP-Long", "MGP-Long")] == [0, 0, 0]
    assert ask(ledger, task="push") == 0
    assert len(entries(ledger)) == 3
    columns, lines = read(ledger)
    assert columns[:5] == ["block", "first_seed", "table", "method", "task"]
    assert lines[0]["first_seed"] == "100000"
    assert lines[0]["commit"] == COMMIT
    assert lines[0]["date"][:2] == "20"


def test_a_changed_preset_begins_a_new_edition_which_the_others_join(ledger):
    for method in ("MGP-Short", "MGP-Long"):
        ask(ledger, method)
    assert ask(ledger, "MGP-Long", "b") == 1, "it was seen on block 0 and changed since"
    assert ask(ledger, "MGP-Short") == 1, "unchanged, but to be compared with the new one"
    assert ask(ledger, "MGP-Long", "b") == 1
    assert ask(ledger, "MGP-Long", "a") == 2, "going back is choosing by the test"


def test_no_two_tables_share_a_block(ledger):
    assert ask(ledger) == 0
    assert ask(ledger, table="sorting") == 1
    assert ask(ledger, preset="b") == 2
    assert ask(ledger, table="sorting") == 1


def test_a_block_is_given_again_only_to_the_preset_that_had_it(ledger):
    ask(ledger)
    ask(ledger, preset="b")
    assert ask(ledger, block=0) == 0
    for wrong in ({"preset": "b", "block": 0}, {"block": 1}, {"block": 7}, {"table": "sorting", "block": 0}):
        with pytest.raises(ConfigError, match=r"was not claimed for MGP-Long.*leave the block out"):
            ask(ledger, **wrong)
    assert len(entries(ledger)) == 2


def test_an_edition_can_be_opened_for_a_reason_that_no_preset_shows(ledger):
    ask(ledger)
    assert open_edition(ledger, "metaworld", COMMIT, "another renderer") == 1
    assert ask(ledger) == 1
    assert [line.get("note") for line in entries(ledger)] == [None, "another renderer", None]
    with pytest.raises(ConfigError, match="say why"):
        open_edition(ledger, "metaworld", COMMIT, " ")


@pytest.mark.parametrize("commit", ["0123+dirty", "unknown", ""])
def test_nothing_is_claimed_for_code_that_cannot_be_had_again(ledger, commit):
    for call in (lambda: claim(ledger, "t", "m", "k", "d", commit), lambda: open_edition(ledger, "t", commit, "why")):
        with pytest.raises(ConfigError, match="clean clone"):
            call()
    assert not ledger.exists()


def test_history_is_kept_and_nothing_is_claimed_from_it(ledger):
    ledger.parent.mkdir()
    ledger.write_text("block,first_seed,table,method,task,digest\nhistory,60000,metaworld,MGP-Long,assembly,a\n")
    assert ask(ledger) == 0
    assert [line["block"] for line in read(ledger)[1]] == ["history", "0"]


def test_a_digest_changes_with_the_preset_but_not_with_the_training_seed():
    preset = {"seed": 0, "training": {"steps": 5}}
    assert digest(preset) == digest({"training": {"steps": 5}, "seed": 7})
    assert digest(preset) != digest({"seed": 0, "training": {"steps": 6}})


def test_the_ledger_of_this_repository_can_be_read():
    """Every test block of a published row stands in it."""
    folder = Path(__file__).parents[2] / "results"
    known = {(line["block"], line.get("method")) for line in entries(folder / "blocks.csv")}
    for path in set(folder.glob("*.csv")) - {folder / "blocks.csv", *folder.glob("*_pairs.csv")}:  # made of others
        for line in read(path)[1]:
            assert "block" not in line or (line["block"], line["method"]) in known
            commits = line.get("trained_at", "") + line["commit"]  # what is only timed was not trained
            assert "+dirty" not in commits
