"""Asking a URL of a check: pinned addresses, redirects on the same origin only, a bounded answer (D8)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from butler.maids.verify.findings import Finding, compared, in_bytes, shown
from butler.maids.verify.urls import Target, target_of
from config.maid_types import HttpCheck

BODY_LIMIT = 1024 * 1024
MOST_REDIRECTS = 5


@dataclass(frozen=True)
class Answer:
    """The last answer; `fault` says why it could not be followed or was none, which has the status 0."""

    status: int = 0
    body: bytes = b""
    is_cut: bool = False
    fault: str = ""


async def check_http(check: HttpCheck, allowed_hosts: Iterable[str]) -> Finding:
    """Ask a URL whose status has to be the expected and whose body has to have the text; the caller bounds the time.

    Raises:
        CheckError: the URL may not be asked.
    """
    answer = await ask(await target_of(check.url, allowed_hosts), stop_at=check.expect_status)
    if answer.fault:
        return Finding("failed", answer.fault)
    has_text = check.expect_body is None or in_bytes(check.expect_body) in answer.body
    passed = answer.status == check.expect_status and has_text
    cut = f" (its first {BODY_LIMIT} bytes)" if answer.is_cut else ""
    actual = f"status {answer.status}, body{cut}:\n{shown(answer.body, 7_000)}" if answer.body else ""
    return Finding("passed" if passed else "failed", actual or f"status {answer.status}, an empty body")


async def check_exact_url(url: str, expect: str, allowed_hosts: Iterable[str]) -> Finding:
    """Ask a URL whose whole body has to equal a text, with status 200; the caller bounds the time.

    Raises:
        CheckError: the URL may not be asked.
    """
    answer = await ask(await target_of(url, allowed_hosts), stop_at=200)
    if answer.fault:
        return Finding("failed", answer.fault)
    if answer.status != 200:
        return Finding("failed", f"status {answer.status}, body:\n{shown(answer.body, 7_000)}")
    return compared(expect, answer.body, is_cut=answer.is_cut)


async def ask(target: Target, *, stop_at: int) -> Answer:
    """Send a GET and follow redirects that stay on the same scheme, host and port.

    Args:
        stop_at: a status that is the answer even if it is a redirect.
    """
    url = target.url
    verify: ssl.SSLContext | bool = False  # over loopback there is nobody to be told apart
    if url.scheme == "https" and not target.loopback:
        verify = ssl.create_default_context()
    # Proxies and credentials of the surroundings are not for the maid's server.
    async with httpx.AsyncClient(verify=verify, timeout=None, follow_redirects=False, trust_env=False) as client:
        for _ in range(MOST_REDIRECTS + 1):
            answer, location = await _get(client, target, url)
            if location is None or answer.status == stop_at:
                return answer
            try:
                following = url.join(location)
            except (httpx.InvalidURL, ValueError):
                return Answer(answer.status, fault=f"status {answer.status} to what is no URL: {location[:200]!r}")
            if _origin(following) != _origin(url) or following.userinfo:
                fault = f"status {answer.status} to another host or port, not followed: {location[:200]!r}"
                return Answer(answer.status, fault=fault)
            url = following
    return Answer(answer.status, fault=f"More than {MOST_REDIRECTS} redirects.")


async def _get(client: httpx.AsyncClient, target: Target, url: httpx.URL) -> tuple[Answer, str | None]:
    fault = ""
    for address in target.addresses:
        request = httpx.Request(
            "GET",
            url.copy_with(host=address),
            headers={"Host": url.netloc.decode("ascii"), "Accept-Encoding": "identity", "User-Agent": "butler"},
            extensions={"sni_hostname": url.host},
        )
        try:
            response = await client.send(request, stream=True)
        except httpx.ConnectError:
            fault = f"Nobody listens at {url.netloc.decode('ascii')}."
            continue
        except (httpx.HTTPError, OSError) as error:
            return Answer(fault=f"No proper answer: {type(error).__name__}: {error}"[:500]), None
        try:
            return await _read(response)
        except (httpx.HTTPError, OSError) as error:
            return Answer(fault=f"The answer broke off: {type(error).__name__}: {error}"[:500]), None
        finally:
            await response.aclose()
    return Answer(fault=fault), None


async def _read(response: httpx.Response) -> tuple[Answer, str | None]:
    body = bytearray()
    async for chunk in response.aiter_raw(16_384):
        body += chunk
        if len(body) > BODY_LIMIT:
            break
    answer = Answer(response.status_code, bytes(body[:BODY_LIMIT]), len(body) > BODY_LIMIT)
    return answer, response.headers.get("location") if 300 <= response.status_code < 400 else None


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host.rstrip(".").lower(), url.port or (443 if url.scheme == "https" else 80)
