#!/usr/bin/env python3
# Shows whether peers keep their pace while their model becomes sure of its answers.
"""Four peers train an easy task by gossip for two minutes; their pace is printed for each ten seconds.

Example: bench/steady_pace.py --binary build/release/grapevine
"""
import argparse
import pathlib
import time

from launched_peers import launched, pace, status, with_settings

CONFIG = pathlib.Path(__file__).resolve().parent.parent / "configs" / "default.toml"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/grapevine")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--window-s", type=float, default=10)
    options = parser.parse_args()
    endless = with_settings(CONFIG.read_text(), [("run", "epochs", None), ("run", "steps", 1_000_000_000)])
    with launched(options.binary, endless, options.peers) as folders:
        began, paces = time.monotonic(), []
        before = [status(options.binary, folder) for folder in folders]
        for _ in range(options.windows):
            time.sleep(options.window_s)
            after = [status(options.binary, folder) for folder in folders]
            paces.append(sum(map(pace, before, after)))
            print(f"after {time.monotonic() - began:4.0f} s {paces[-1]:12,.0f} samples/s", flush=True)
            before = after
    print(f"the last is {paces[-1] / max(paces):.2f} of the quickest")


if __name__ == "__main__":
    main()
