import pytest

from mgp.errors import ConfigError
from mgp.evaluation import mean_of_top, over_trainings, sign_test, wilson
from mgp.evaluation.statistics import auroc


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # R: binom::binom.confint(x, n, methods = "wilson"); statsmodels: proportion_confint(x, n, method="wilson")
    [
        (0, 20, 0.0, 0.1611),
        (20, 20, 0.8389, 1.0),
        (10, 20, 0.2993, 0.7007),
        (18, 20, 0.6990, 0.9721),
        (1, 1, 0.2065, 1.0),
    ],
)
def test_wilson_matches_known_intervals(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=2e-4)


def test_wilson_ends_are_exact_and_nothing_seen_means_anything_goes():
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_refuses_impossible_counts():
    with pytest.raises(ConfigError, match="21 successes of 20"):
        wilson(21, 20)


def test_mean_of_top():
    assert mean_of_top([0.1, 1.0, 0.9, 0.8, 0.7, 0.6]) == pytest.approx(0.8)
    assert mean_of_top([0.5]) == 0.5
    with pytest.raises(ConfigError):
        mean_of_top([])


def test_the_training_seed_as_the_unit():
    # R: t.test(c(.92, .88, .90))$conf.int
    assert over_trainings([0.92, 0.88, 0.90]) == pytest.approx((0.85032, 0.94968), abs=1e-5)
    assert over_trainings([0.5, 1.0]) == (0.0, 1.0), "two trainings that differ leave everything open"
    assert over_trainings([0.9]) is None
    assert over_trainings([1.0, 1.0, 1.0]) is None, "no width is no interval"
    with pytest.raises(ConfigError, match=r"rate 1\.5 lies outside 0 to 1"):
        over_trainings([0.5, 1.5])


def test_sign_test_counts_the_episodes_that_differ():
    first = {seed: seed < 15 for seed in range(20)}
    second = {seed: 5 <= seed < 16 for seed in range(20)}
    paired = sign_test(first, second)
    assert paired[:4] == (10, 5, 1, 4)
    assert paired.p == pytest.approx(0.21875)  # R: binom.test(1, 6)
    assert sign_test(first, first).p == 1.0
    assert sign_test(dict.fromkeys(range(10), True), dict.fromkeys(range(10), False)).p == pytest.approx(2 / 2**10)
    with pytest.raises(ConfigError, match=r"seed 19 .* same episodes"):
        sign_test(first, dict.fromkeys(range(19), True))


def test_auroc_is_the_chance_that_a_failure_scores_lower():
    assert auroc([0.1, 0.2, 0.8, 0.9], [True, True, False, False]) == 1.0
    assert auroc([0.9, 0.8, 0.2, 0.1], [True, True, False, False]) == 0.0
    assert auroc([0.5, 0.5, 0.5], [True, False, False]) == 0.5
    assert auroc([0.1, 0.6, 0.5, 0.9], [True, True, False, False]) == 0.75
    assert auroc([0.1, 0.2], [True, True]) is None
    assert auroc([], []) is None
