"""The application: settings → house → routes. Start it with ``python server.py``."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TextIO, cast

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from butler.errors import ButlerError, ConfigError
from butler.maids.launching.orphans import adopt_orphans, reap_orphans
from butler.undumpable import close_to_others
from config.environment import read_environment
from config.settings import load_settings, unknown_variables
from service.address import forget_url, local_url, write_url
from service.house import open_house
from service.http.app import create_app
from service.socket.frames import MOST_FRAME_BYTES
from service.socket.head import HeadProtocol
from service.socket.narrow import NarrowProtocol
from service.watching.logs import set_up_logging
from service.wiring import Configuration, read_configuration

STREAMS_GRACE_SECONDS = 5.0
REQUESTS_GRACE_SECONDS = 6
PING_SECONDS = 20.0
"""How often a WebSocket is pinged, and how long its answer is waited for."""


class LastingStream:
    """Standard error for log lines: a full disk or a closed pipe must not stop a turn that has something to say."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def write(self, text: str) -> int:
        """Write a line, or count it as lost."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            self.lost += 1
            return 0

    def flush(self) -> None:
        """Flush, or count it as lost."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1


class HouseServer(uvicorn.Server):
    """A uvicorn server whose signals are ours, so that SIGTERM and SIGINT end the process with status 0."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that requests are accepted as soon as they are."""
        await super().startup(sockets)
        if self.started:
            # What is there now stays for good; without this each full collection looks at all of it, in 0.1 s and more.
            gc.freeze()
            self._announce()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `serve`."""
        yield


def main() -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status: 2 when the configuration does not allow a start."""
    errors = cast(TextIO, LastingStream(sys.stderr))
    set_up_logging(errors)
    # First of all: from here on, what runs as the same user can't read the secrets out of this process.
    close_to_others()
    try:
        environment = read_environment()
        for unknown in unknown_variables():
            print(unknown, file=sys.stderr)
        configuration = read_configuration(load_settings(), environment.values)
        set_up_logging(errors, configuration.redactor(environment.values))
        return asyncio.run(serve(configuration, environment.values))
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 2
    except ButlerError as error:
        print(f"Butler can't start: {error.detail}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"Butler can't use its data directory: {error}. Check BUTLER_DATA_DIR.", file=sys.stderr)
        return 2
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        print(f"Butler can't use its database: {cause}. `butler doctor` says more.", file=sys.stderr)
        return 5


async def serve(configuration: Configuration, environ: Mapping[str, str]) -> int:
    """Open the house and serve it over HTTP."""
    settings = configuration.settings
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    with closing(_listen(settings.host, settings.port)) as listener:
        port = listener.getsockname()[1]
        async with open_house(configuration, environ, local_url(settings.host, port)) as house:
            config = uvicorn.Config(
                create_app(house.service, behind_https=str(settings.public_url or "").startswith("https:")),
                log_config=None,
                access_log=False,
                lifespan="off",
                # asyncio and uvloop cost the same here, but uvloop forks for a child process where asyncio uses vfork.
                loop="asyncio",
                http=HeadProtocol,
                ws=NarrowProtocol,
                # Beyond the limit of our own, so that a frame that is a little too large gets an answer.
                ws_max_size=2 * MOST_FRAME_BYTES,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=PING_SECONDS,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=REQUESTS_GRACE_SECONDS,
            )
            server = HouseServer(config, lambda: _announce(settings.host, port, house.owner_token, configuration))

            async def stop_when_asked() -> None:
                await stopping.wait()
                server.should_exit = True
                house.service.runs.begin_to_stop()
                # Turns that are nearly done still reach their readers; streams that only wait are ended.
                loop.call_later(STREAMS_GRACE_SECONDS, house.service.runs.logs.close)

            stopper = asyncio.create_task(stop_when_asked())
            # What a maid leaves by killing its keeper comes here instead of getting away.
            reaper = asyncio.create_task(reap_orphans()) if adopt_orphans() else None
            if not stopping.is_set():
                await server.serve(sockets=[listener])
            stopper.cancel()
            if reaper is not None:
                reaper.cancel()
            forget_url(settings.data_dir)  # Before the lock goes: the file may be the next server's after that.
    return 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ButlerError(
            "cannot_listen",
            f"{host}:{port} can't be opened ({error.strerror}). Does a Butler run already? Else change BUTLER_PORT "
            "or BUTLER_HOST.",
        ) from None
    return listener


def _announce(host: str, port: int, token: str, configuration: Configuration) -> None:
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    settings = configuration.settings
    write_url(settings.data_dir, local_url(host, port))
    tools, rules = len(configuration.tools.offered_names()), len(configuration.policy.definition.rules)
    print(f"Configuration in {settings.config_dir}: {tools} tools, {rules} policy rules. Data in {settings.data_dir}.")
    print(f"Open {url}/?token={token}", flush=True)
    if missing := configuration.settings.model_missing:
        print(f"No model is configured: set {' and '.join(missing)}. /commands work without one.", flush=True)
    print(f"Butler is ready at {url}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main() if os.name == "posix" else "Butler needs a POSIX system.")
