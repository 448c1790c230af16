from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from mgp.config import Sampling
from mgp.extras import needed
from mgp.policies.learned import LearnedPolicy
from mgp.runs import load_policy, pick_device


@dataclass(frozen=True)
class Serve:
    """Serve a trained policy over WebSocket and msgpack, in openpi's protocol: its clients work as they are.

    A client sends one dictionary of arrays, {"state": (S,), "cloud": (P, 3), ...}, and gets {"actions": (T, A)}. Each
    connection is an episode of its own; from Python, also without torch, use mgp.client.PolicyClient (docs/deploy.md).

    Without more, only this machine can connect. For others give --host 0.0.0.0 and a key, in the variable MGP_API_KEY
    or in --api-key-file: clients send it as `Authorization: Api-Key <key>`. Nothing is encrypted: use a tunnel, or a
    proxy with TLS, where the network is not your own.

    GET /healthz says OK, GET /metrics is for Prometheus. Ctrl-C or SIGTERM finishes the replies under way and ends.
    Sampling options can be changed as in `mgp eval`: --sampling.execution-horizon 4."""

    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote, or a checkpoint of it
    host: str = "127.0.0.1"  # address to listen on; any but this machine's own needs a key
    port: int = 8000  # 0: any that is free
    api_key_file: Path | None = None  # the key is its first line; default: the variable MGP_API_KEY
    max_message: float = 16.0  # MiB of an observation
    max_rate: float = 200.0  # messages a second of one client; a faster one is slowed down
    max_clients: int = 32  # connections at a time
    max_age: float = 1.0  # seconds; older observations count as missing, where clients say when they were taken
    batch: int = 8  # plans of several clients made at once, at most; as many as pay on this machine, which is tried
    threads: int = 1  # of torch; more are slower for small networks
    device: str = "cpu"  # auto, cpu or cuda
    engine: str = "auto"  # who computes: torch, or one that `mgp export` wrote; auto: the fastest of these
    sampling: Sampling = field(default_factory=Sampling)


def main(arguments: list[str]) -> None:
    args, policy = parse(arguments)
    for module in ("websockets", "msgpack"):
        needed(module, "serve", "`mgp serve`")
    from mgp.runtime.access import find_key
    from mgp.runtime.limits import ClientLimits
    from mgp.runtime.server import PolicyServer, ServerConfig, run_server
    from mgp.runtime.server_log import ServerLog

    lines = ServerLog()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", handlers=[lines])
    limits = ClientLimits(int(args.max_message * 2**20), args.max_rate, args.max_clients, max_age=args.max_age)
    key = find_key(args.api_key_file)
    config = ServerConfig(args.host, args.port, key, limits, args.batch, args.threads)

    def ready(server: PolicyServer) -> None:
        about = server.shared.metadata
        looks = ", ".join(f"{key} {tuple(shape)}" for key, shape in about["observations"].items()) or "nothing"
        print(f"{about['method']} on {about['task']}, computed by {policy.engine}, at ws://{args.host}:{server.port}")
        print(f"looks at {looks}; replies hold {about['action_horizon']} actions of {about['action_width']} numbers")
        print(f"{server.inference.batch} plans at once, {'with' if key else 'without'} a key; Ctrl-C ends", flush=True)

    run_server(policy, config, ready)
    lines.finish()
    print("stopped")


def parse(arguments: list[str]) -> tuple[Serve, LearnedPolicy]:
    """The run named on the command line gives the sampling options and their defaults."""
    names = [word for word in arguments if not word.startswith("-")]
    folder = next((word for word in names if Path(word).is_dir()), None)
    if folder is None:
        folder = str(tyro.cli(Serve, args=arguments, prog="mgp serve").run)  # help, or what is missing
    sampling = load_policy(folder, engine="torch").sampling
    args = tyro.cli(Serve, args=arguments, default=Serve(Path(folder), sampling=sampling), prog="mgp serve")
    changes = asdict(args.sampling) if args.sampling != sampling else {}
    return args, load_policy(folder, str(pick_device(args.device)), args.engine, **changes)
