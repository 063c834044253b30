"""What only some callers may; an attempt of others is refused and told to the audit (B6)."""

from __future__ import annotations

from fastapi import Request

from butler.errors import ButlerError
from butler.people import Principal
from service.http.chat import service_of
from service.http.security import caller, face


async def admin_only(request: Request, refusal: str) -> Principal:
    """The caller, an admin. Raises ButlerError ``forbidden`` with `refusal`."""
    person = caller(request)
    if person.is_admin:
        return person
    route = getattr(request.scope.get("route"), "path", request.url.path)
    await service_of(request).attempts.refused(person, f"{request.method} {route}", face(request))
    raise ButlerError("forbidden", refusal)
