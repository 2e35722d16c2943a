"""A peer's producer, `python -m benchmarks.peers.produce huey_peer 1000`: imports it, so that its task has its name."""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(f"benchmarks.peers.{sys.argv.pop(1)}").produce()
