"""The command `mgp`: one module of `mgp.commands` for each word."""

from __future__ import annotations

import importlib
import os
import sys

from mgp import __version__
from mgp.errors import MGPError, UnknownNameError

COMMANDS = {
    "demo": "collect, train, drive the arm, write a report: ten minutes on two cores",
    "envs": "list the environments and the methods",
    "collect": "record demonstrations of a scripted expert",
    "train": "train a policy; collects first if there are no demonstrations",
    "eval": "success and latency of a trained policy on unseen episodes",
    "eval-tokenizer": "reconstruction error, codes in use, and replay of a trained tokenizer",
    "analyze": "confidence study of an MGP-Long: heat-map, moving scenes, flip rates",
    "export": "write a policy down for faster engines (ONNX Runtime, OpenVINO), compared with torch",
    "serve": "a policy behind a WebSocket, for robots elsewhere; clients of openpi work as they are",
    "report": "one HTML page from one or more runs",
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        f"mgp {__version__}: Masked Generative Policy",
        "",
        "usage: mgp COMMAND [options]   (mgp COMMAND --help)",
        "",
    ]
    return "\n".join(lines + [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()])


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if words[0] in ("-V", "--version"):
        print(__version__)
        return
    try:
        if words[0] not in COMMANDS:
            raise UnknownNameError("command", words[0], COMMANDS)
        importlib.import_module(f"mgp.commands.{words[0].replace('-', '_')}").main(words[1:])
    except MGPError as error:
        print(f"mgp: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # mgp train --help | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor does anything at the end of the process
        sys.exit(0)
    except KeyboardInterrupt:
        print("mgp: interrupted; what was finished is kept, and the same command goes on from there", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
