from __future__ import annotations

import pytest

from mgp.errors import ConfigError
from mgp.runtime.access import allowed, check_access, find_key
from mgp.runtime.limits import Bucket, ClientLimits
from mgp.runtime.server import ServerConfig

KEY = "0123456789abcdef"


def test_a_bucket_lets_bursts_pass_and_holds_the_rate():
    bucket = Bucket(rate=100, burst=10)
    assert [bucket.delay(5.0) for _ in range(10)] == [0.0] * 10
    delays = [bucket.delay(5.0) for _ in range(20)]
    assert delays == pytest.approx([0.01 * (index + 1) for index in range(20)])
    assert bucket.delay(5.0 + 0.22) == 0.0, "and is filled again"
    assert bucket.delay(1e6) == 0.0
    assert bucket.left == 9, "but not more than it holds"


def test_a_steady_client_below_the_rate_never_waits():
    bucket = Bucket(rate=20)
    assert all(bucket.delay(step / 20) == 0 for step in range(1000))


@pytest.mark.parametrize("name", ["message", "rate", "clients", "patience", "max_age"])
def test_limits_are_above_zero(name):
    with pytest.raises(ConfigError, match=name):
        ClientLimits(**{name: 0})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
def test_this_machine_needs_no_key(host):
    check_access(host, "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "", "robot.local", "127.0.0.1.example.org"])
def test_other_machines_need_one(host):
    with pytest.raises(ConfigError, match=r"set MGP_API_KEY or --api-key-file, or listen on 127\.0\.0\.1"):
        ServerConfig(host)
    ServerConfig(host, key=KEY)


@pytest.mark.parametrize("key", ["short", "0123456789 abcdef", "0123456789abcdéf", "0123456789\nabcdef"])
def test_keys_that_are_none(key):
    with pytest.raises(ConfigError, match="at least 16 are needed") as caught:
        check_access("127.0.0.1", key)
    assert key not in str(caught.value)


def test_a_key_is_not_shown():
    assert KEY not in repr(ServerConfig(key=KEY))


def test_who_has_the_key_comes_in():
    assert allowed({}, "")
    assert allowed({"Authorization": f"Api-Key {KEY}"}, KEY)
    for header in (None, "", KEY, f"Bearer {KEY}", f"Api-Key {KEY}x", f"Api-Key {KEY[:-1]}", "Api-Key é"):
        assert not allowed({"Authorization": header} if header is not None else {}, KEY)


def test_where_the_key_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("MGP_API_KEY", raising=False)
    assert find_key(None) == ""
    monkeypatch.setenv("MGP_API_KEY", KEY)
    assert find_key(None) == KEY
    (tmp_path / "key").write_text("another\n# of the lab\n")
    assert find_key(tmp_path / "key") == "another"
    with pytest.raises(ConfigError, match="write the key into it"):
        find_key(tmp_path / "none")
