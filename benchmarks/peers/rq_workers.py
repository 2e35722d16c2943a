"""RQ's command line: it has no `python -m rq`, and needs the server's address as an argument."""

import sys

from rq.cli import main

from benchmarks import effects

if __name__ == "__main__":
    sys.argv += ["--url", effects.url()]
    main()
