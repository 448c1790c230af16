"""Who may ask: anybody on this machine; from elsewhere, who has the key."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from mgp.errors import ConfigError

VARIABLE = "MGP_API_KEY"
SHORTEST = 16  # letters of a key; `openssl rand -hex 16` makes 32


def find_key(file: Path | None) -> str:
    """From a file or else from the environment, not from the command line, which everybody on a machine can read."""
    if file is None:
        return os.environ.get(VARIABLE, "").strip()
    try:
        return file.read_text().partition("\n")[0].strip()
    except OSError as error:
        raise ConfigError(f"api_key_file = {file}: {error.strerror}; write the key into it") from error


def check_access(host: str, key: str) -> None:
    """Refuse to listen to the network without a key, or with one that can be guessed."""
    if not key and not _loopback(host):
        raise ConfigError(
            f"host = {host!r} can be reached from other machines, and there is no key: set {VARIABLE} or"
            " --api-key-file, or listen on 127.0.0.1"
        )
    if key and not (len(key) >= SHORTEST and key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            f"the API key has {len(key)} characters: at least {SHORTEST} are needed, printable, without blanks;"
            " `openssl rand -hex 16` makes one"
        )


def allowed(headers: Mapping[str, str], key: str) -> bool:
    """As openpi's clients say it: `Authorization: Api-Key <key>`."""
    if not key:
        return True
    given = headers.get("Authorization") or ""
    return hmac.compare_digest(given.encode("utf-8", "replace"), f"Api-Key {key}".encode())


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
