"""
The console command `chio-worker`. `main` turns every error this project raises on purpose into one sentence.

Commands are declared in light modules, and each imports what it works with when it runs, so that `--help` is quick.
"""

import os
import sys

from reliability.errors import ChioError


def main() -> None:
    """Run the command line; errors end with exit code 2, a closed pipe or Ctrl-C ends quietly."""
    from worker.cli import options, program

    try:
        program.app()
    except ChioError as error:
        sys.stderr.write(f"chio-worker: {error}\n")
        sys.exit(options.EXIT_FAILED)
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted; the interpreter must not write to the pipe again while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(options.EXIT_REFUSED)
