"""Where the running server is, and with which token to speak to it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from butler.errors import ButlerError
from config.environment import Environment, read_environment
from config.settings import Settings, load_settings
from service.address import TOKEN_FILE, URL_FILE, is_loopback, is_this_machine, local_url, read_url


@dataclass(frozen=True)
class Place:
    """A server's base URL, the token for it, and who told us each, for errors."""

    url: str
    token: SecretStr
    url_from: str
    token_from: str

    @property
    def is_loopback(self) -> bool:
        """Whether what is sent there stays on this machine whatever the network does."""
        return is_loopback(urlsplit(self.url).hostname or "")


def find_place(environment: Environment | None = None, cwd: Path | None = None) -> Place:
    """Find the server: ``BUTLER_URL`` and ``BUTLER_TOKEN``, else what the data directory says, else the settings.

    Raises: ConfigError for settings that can't be read; ButlerError ``invalid_request`` for an address that can't be
    used, ``unauthorized`` when there is no token, ``unreachable`` when nothing says where the server is.
    """
    environment = environment or read_environment(cwd=cwd)
    told, token = environment.get("BUTLER_URL"), environment.get("BUTLER_TOKEN")
    if told:
        parts = _checked(told, "BUTLER_URL")
        url, url_from, here = _base(parts), "BUTLER_URL", is_loopback(parts.hostname or "")
        if parts.scheme == "http" and not here and environment.get("BUTLER_INSECURE") != "1":
            raise ButlerError(
                "invalid_request",
                f"BUTLER_URL is {url}: over plain http everyone on the way could read the token. Use https, or a "
                "tunnel to a loopback address; BUTLER_INSECURE=1 sends it all the same.",
            )
    else:
        url, url_from = _of_this_house(load_settings(environment.values, cwd))
        here = True
    if token:
        if not here and _was_left_there(environment):
            raise ButlerError(
                "invalid_request",
                f"BUTLER_URL stands in {environment.file}, but BUTLER_TOKEN in the environment: a folder does not say "
                f"where your token is sent ({url}). Set both in the same place, or name the file with BUTLER_ENV_PATH.",
            )
        return Place(url, _sendable(token, "BUTLER_TOKEN"), url_from, "BUTLER_TOKEN")
    if not here:
        raise ButlerError(
            "unauthorized",
            f"BUTLER_TOKEN is not set. The owner's token in the data directory is never sent to another machine "
            f"({url}); an admin makes you one with `butler user add NAME`.",
        )
    found, token_from = _own_token(load_settings(environment.values, cwd))
    return Place(url, found, url_from, token_from)


def _was_left_there(environment: Environment) -> bool:
    """Whether a file of the working directory, named by nobody, says where a person's own token would be sent."""
    lines, named = environment.lines, environment.get("BUTLER_ENV_PATH")
    return "BUTLER_URL" in lines and "BUTLER_TOKEN" not in lines and (not named or "BUTLER_ENV_PATH" in lines)


def _of_this_house(settings: Settings) -> tuple[str, str]:
    if told := read_url(settings.data_dir):
        source = str(settings.data_dir / URL_FILE)
        return _here(told, source), source
    if settings.port == 0:
        raise ButlerError(
            "unreachable",
            f"No Butler runs on {settings.data_dir}. Start it with `butler serve`, or say with BUTLER_URL where it is.",
        )
    return _here(local_url(settings.host, settings.port), "BUTLER_HOST"), "BUTLER_HOST and BUTLER_PORT"


def _here(url: str, source: str) -> str:
    """The base of an address that only a server of this machine can have. Raises ButlerError for any other."""
    parts = _checked(url, source)
    if not is_this_machine(parts.hostname or ""):
        raise ButlerError(
            "invalid_request",
            f"{source} names {_base(parts)}, which is not on this machine, so no token is sent there. "
            "If it is yours, say so with BUTLER_URL and BUTLER_TOKEN.",
        )
    return _base(parts)


def _own_token(settings: Settings) -> tuple[SecretStr, str]:
    if settings.owner_token is not None:
        return settings.owner_token, "BUTLER_OWNER_TOKEN"
    path = settings.data_dir / TOKEN_FILE
    try:
        return _sendable(path.read_text("utf-8"), str(path)), str(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ButlerError(
            "unauthorized",
            f"There is no token to speak with: BUTLER_TOKEN is not set, and {path} can't be read ({why}). "
            "Go to Butler's folder, or set BUTLER_URL and BUTLER_TOKEN.",
        ) from None


def _checked(url: str, source: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as error:
        raise ButlerError("invalid_request", f"{source} is no URL: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ButlerError("invalid_request", f"{source} must be a URL such as http://127.0.0.1:8710.")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ButlerError("invalid_request", f"{source} must be a bare address; give the token as BUTLER_TOKEN.")
    return parts


def _base(parts: SplitResult) -> str:
    host = parts.hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        shown = host
    else:
        # A server that listens on every address is reached over the loopback one.
        if address.is_unspecified:
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
        shown = f"[{address}]" if address.version == 6 else str(address)
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{shown}{port}{parts.path.rstrip('/')}"


def _sendable(token: str, source: str) -> SecretStr:
    token = token.strip()
    if not token or not all("!" <= char <= "~" for char in token):
        raise ButlerError("unauthorized", f"{source} holds no token: visible ASCII characters without spaces.")
    return SecretStr(token)
