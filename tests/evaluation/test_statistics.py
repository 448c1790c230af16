import pytest

from mgp.errors import ConfigError
from mgp.evaluation import mean_of_top, median, percentile, wilson


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


def test_percentiles():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5
    assert percentile(range(101), 95) == 95
    assert percentile([7], 95) == 7
