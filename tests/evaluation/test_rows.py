"""Rows of results/*.csv: pooling, replacing, and what a published folder refuses."""

import csv
from dataclasses import replace

import pytest

from mgp.errors import ConfigError, DataError
from mgp.evaluation import EpisodeResult, Evaluation, add_rows, make_row
from mgp.evaluation.rows import COLUMNS
from mgp.evaluation.seeds import LEDGER, claim

CLEAN = "0123456789ab"


def timed(idle: bool) -> dict:
    timing = {"replan": 8.0, "replan_p95": 9.0, "step": 2.0, "sequence": 100.0}
    return {"threads": 1, "replans": 5, "policy": timing, "with_observation": timing, "idle": idle}


def made_up(successes: int, training_seed: int = 0, first: int = 100_000, **changes) -> Evaluation:
    episodes = tuple(EpisodeResult(first + n, n < successes, 3 if n < successes else None, 9, 2) for n in range(10))
    one = Evaluation(
        "MGP-Long",
        "toy/line",
        "cloud",
        episodes,
        preset="toy",
        training_seed=training_seed,
        training_minutes=1.0 + training_seed,
        demonstrations=10,
        variant={"temperature": 0.5, "scoring": "atr"},
        options={"cloud": "camera"},
        latency=(timed(True),),
        seeds_checked=True,
        commit=CLEAN,
    )
    return replace(one, **changes)


def lines(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_pools_training_seeds_and_shows_each():
    row = make_row([made_up(10, 2), made_up(9, 0), made_up(8, 1)], [CLEAN, CLEAN, "f" * 12], [0.9, 0.8, 0.7])
    assert tuple(row) == COLUMNS
    assert (row["seeds"], row["by_seed"], row["episodes"], row["success"]) == ("0 1 2", "0.90 0.80 1.00", "30", "0.9")
    assert float(row["seed_low"]) == pytest.approx(0.9 - 4.3027 * 0.1 / 3**0.5, abs=1e-3)
    assert row["seed_high"] == "1.0", "clipped"
    assert (float(row["low"]), float(row["high"])) == pytest.approx((0.7438, 0.9654), abs=1e-3)
    assert row["top5_in_training"] == "0.8"
    assert (row["trained_at"], row["commit"]) == (f"{CLEAN} {'f' * 12}", CLEAN)
    assert (row["temperature"], row["variant"], row["refine_steps"]) == ("0.5", "scoring=atr", "")
    assert (row["block"], row["evaluation_seeds"], row["cloud"]) == ("0", "100000-100009", "camera")
    assert (row["training_minutes"], row["ms_per_step"], row["ms_per_sequence"]) == ("2.0", "2.0", "100.0")
    assert row["note"] == ""
    assert row["outcomes"] == "1111111110 1111111100 1111111111"


def test_a_row_leaves_out_what_is_not_known():
    row = make_row([made_up(9, first=10_000, options={}, latency=(timed(False),), seeds_checked=False)], [""], [None])
    assert row["cloud"] == "oracle"
    assert [row[name] for name in ("seed_low", "seed_high", "block", "top5_in_training", "trained_at")] == [""] * 5
    assert (row["ms_per_step"], row["ms_per_sequence"]) == ("", ""), "the machine was busy"
    assert row["note"] == "demonstration seeds unknown: overlap not checked"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (made_up(9, 1, preset="else"), "preset 'toy' and 'else' cannot share a row: pool training seeds only"),
        (made_up(9, 1, options={}), "pool training seeds only"),
        (made_up(9, 0), "training seed 0 of MGP-Long on toy/line was given twice"),
        (made_up(9, 1, first=100_001), "training seeds 0 and 1 .* different episodes: evaluate both with the same"),
    ],
)
def test_what_differs_in_more_than_the_training_seed_is_not_pooled(other, message):
    with pytest.raises(ConfigError, match=message):
        make_row([made_up(9, 0), other])


def test_a_row_made_again_takes_its_old_place(tmp_path):
    path = tmp_path / "tables" / "metaworld.csv"
    add_rows(path, [make_row([made_up(9)]), make_row([made_up(9, method="MGP-Full")])])
    before = path.read_text()
    add_rows(path, [make_row([made_up(9)])])
    assert path.read_text() == before
    add_rows(path, [make_row([made_up(3)])])
    assert [(line["method"], line["success"]) for line in lines(path)] == [("MGP-Long", "0.3"), ("MGP-Full", "0.9")]
    others = [made_up(9, 1), made_up(9, missing=0.5), made_up(9, options={}), made_up(9, first=101_000)]
    others += [made_up(9, first=50_000), made_up(9, first=60_000), made_up(9, variant={"temperature": 0.25})]
    for number, other in enumerate(others, 3):
        add_rows(path, [make_row([other])])
        assert len(lines(path)) == number, "another seed, condition, cloud, block or option is another row"


def test_rows_keep_what_is_there_and_extend_the_columns(tmp_path):
    path = tmp_path / "r.csv"
    add_rows(path, [make_row([made_up(9)])])
    add_rows(path, [{"method": "MGP-Full", "remark": 'a "b", c'}, {"method": "old"}])
    assert [line["method"] for line in lines(path)] == ["MGP-Long", "MGP-Full", "old"]
    assert list(lines(path)[0]) == [*COLUMNS, "remark"]
    assert [line["remark"] for line in lines(path)] == ["", 'a "b", c', ""]
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["r.csv"], "no temporary is left"


def test_a_row_of_before_there_were_kinds_of_clouds_is_replaced_too(tmp_path):
    path = tmp_path / "r.csv"
    row = make_row([made_up(9, options={})])
    add_rows(path, [{name: value for name, value in row.items() if name != "cloud"}])
    add_rows(path, [row])
    assert [line["cloud"] for line in lines(path)] == ["oracle"]


def test_a_failed_change_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "r.csv"
    add_rows(path, [make_row([made_up(9)])])
    before = path.read_text()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        add_rows(path, [{"method": "new"}])
    assert path.read_text() == before


def test_a_mangled_table_is_refused_with_the_line(tmp_path):
    (tmp_path / "r.csv").write_text("method,task\na,b,c\n")
    with pytest.raises(DataError, match="line 2 has 3 cells, the header 2"):
        add_rows(tmp_path / "r.csv", [{"method": "new"}])


@pytest.mark.parametrize(
    ("one", "trained_at", "message"),
    [
        (made_up(9), f"{CLEAN}+dirty", f"was trained at commit {CLEAN}\\+dirty.*clean clone"),
        (made_up(9), "", "was trained at commit unknown"),
        (made_up(9, commit=f"{CLEAN}+dirty"), CLEAN, "was evaluated at commit .*dirty"),
        (made_up(9, first=60_000), CLEAN, "evaluated on seeds 60000-60009, which are no test block claimed"),
        (made_up(9, first=107_000), CLEAN, "evaluated on seeds 107000-107009, which are no test block claimed"),
        (made_up(9, method="MGP-Full"), CLEAN, "no test block claimed for MGP-Full"),
    ],
)
def test_a_published_folder_refuses_what_could_be_contested(one, trained_at, message, tmp_path):
    path, row = tmp_path / "r.csv", make_row([one], [trained_at])
    add_rows(tmp_path / "elsewhere" / "r.csv", [row])
    assert claim(tmp_path / LEDGER, "r", "MGP-Long", "toy/line", "digest", CLEAN) == 0
    with pytest.raises(ConfigError, match=message):
        add_rows(path, [row])
    assert not path.exists()
    add_rows(path, [make_row([made_up(9)], [CLEAN])])
    assert len(lines(path)) == 1
