"""
The server used when CHIO_REDIS_URL is unset: a packaged Valkey, append-only, loopback only, with a password.

Its address stands in `<data_dir>/redis.url` before it runs, so that every process finds it without waiting: whoever
asks first picks the port. `python -m worker.embedded` runs it in the foreground and ends it after its clients.
"""

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from reliability.errors import ConfigurationError
from worker import embedded_server, ports
from worker.settings import Settings

#: The file that holds the address, password included; readable by its owner only.
URL_FILE: Final = "redis.url"
_LOOPBACK: Final = "127.0.0.1"


def address(settings: Settings) -> str:
    """Return the embedded server's URL; the first caller picks port and password and keeps them in a file."""
    path = settings.data_dir / URL_FILE
    url = _read(path)
    wanted = settings.embedded_port
    if url and wanted in (0, urlsplit(url).port):
        return url
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if url:
        path.unlink(missing_ok=True)
    return _keep(path, f"redis://:{secrets.token_hex(16)}@{_LOOPBACK}:{wanted or ports.free_port()}/0")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"CHIO_DATA_DIR: cannot read {path}: {error.strerror}") from error


def _keep(path: Path, url: str) -> str:
    """Write the file unless another process was first; return what stands in it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    try:
        draft.write_text(f"{url}\n", encoding="ascii")
        with contextlib.suppress(FileExistsError):
            # A link either makes the whole file or nothing, so nobody ever reads half an address.
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return _read(path) or url


def main() -> int:
    """Run the server until SIGTERM or SIGINT; the exit code is 2 when it cannot start."""
    settings = Settings.load()
    if settings.redis_url:
        sys.stderr.write("CHIO_REDIS_URL is set: that server is used and the embedded one is not started.\n")
        return embedded_server.wait_for_signal()
    try:
        return embedded_server.run(address(settings), settings.data_dir, settings.soft_shutdown_timeout_s)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
