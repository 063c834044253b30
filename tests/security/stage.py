"""A running house with people of every role and things of theirs, made when a test asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from tests.support.client import Client, Json
from tests.support.orders import approve, call, fresh, park
from tests.support.server import ButlerServer

WHOSE = ("member's", "admin's", "unknown")
UNKNOWN = "no-such-thing-1234"
MEMORIES = ("memory_id", "forgotten_id")


def people(server: ButlerServer) -> dict[str, Client]:
    """A client for each kind of caller; ``member`` is who owns the member's things, ``other`` another member."""
    owner = server.client()

    def add(name: str, role: str) -> Client:
        return server.client(good_token(owner.post("/users", {"name": name, "role": role})))

    found = {
        "nobody": server.client(None),
        "forger": server.client("wrong-token"),
        "agent": add("anna", "agent"),
        "member": add("mia", "member"),
        "other": add("ben", "member"),
        "admin": owner,
        "second admin": add("ada", "admin"),
        "disabled": add("dora", "admin"),
        "ended": add("emil", "admin"),
    }
    assert owner.request("PATCH", "/users/dora", json={"disabled": True}).status_code == 200
    for token in owner.get("/users/emil/tokens")["items"]:
        assert owner.request("DELETE", f"/users/emil/tokens/{token['token_id']}").status_code == 204
    return found


def new_task() -> Json:
    """A task that no route is for."""
    return {"intent": "format", "instruction": fresh("task"), "project_root": "~/project"}


def good_token(response: httpx.Response) -> str:
    """The token in the answer that made it."""
    assert response.status_code == 201, response.text
    return str(response.json()["token"])


@dataclass
class Stage:
    """The house and its people. Things by kind are named like the parameters of the paths."""

    server: ButlerServer
    people: dict[str, Client]
    _kept: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def admin(self) -> Client:
        """The owner."""
        return self.people["admin"]

    def thing(self, kind: str, whose: str, *, new: bool = False) -> str:
        """The id of a thing; `new` makes one that nothing has touched.

        Raises: LookupError for a kind that nobody taught this stage: teach it here.
        """
        if whose == "unknown":
            return UNKNOWN
        key = (kind, whose)
        if new or key not in self._kept or (kind in MEMORIES and self._is_erased(key)):
            self._kept[key] = self._make(kind, whose.removesuffix("'s"))
        return self._kept[key]

    def _make(self, kind: str, whose: str) -> str:
        client = self.people[whose]
        match kind:
            case "thread_id" | "run_id":
                return str(park(client, fresh())[kind])
            case "action_id":
                return str(park(client, fresh())["approvals"][0]["action_id"])
            case "grant_id":
                return self._grant(client)
            case "model_id":
                return "butler"
            case "name":
                return "page.css"
            case "user_name":
                return {"member": "mia", "admin": "owner"}[whose]
            case "account":
                made = self.admin.post("/users", {"name": fresh("user"), "role": whose})
                return str(made.json()["name"])
            case "token_id":
                path = f"/users/{self.thing('user_name', whose)}/tokens"
                return str(self.admin.post(path, {"label": fresh("token")}).json()["token_id"])
            case "memory_id":
                return str(client.post("/memories", {"text": fresh("fact")}).json()["memory_id"])
            case "forgotten_id":
                memory_id = self.thing("memory_id", f"{whose}'s", new=True)
                assert client.request("DELETE", f"/memories/{memory_id}").status_code == 200
                return self._kept.pop(("memory_id", f"{whose}'s"))
            case "maid_run_id":
                return str(client.post("/maids/run", new_task()).json()["maid_run_id"])
            case "token":
                return f"{UNKNOWN}.of-a-link"
        raise LookupError(f"nothing here makes a {kind!r} for a path; add it to tests/security/stage.py")

    def _is_erased(self, key: tuple[str, str]) -> bool:
        """Whether a memory went with all the others of its person, which one operation does."""
        path = f"/memories/{self._kept[key]}"
        return self.people[key[1].removesuffix("'s")].request("GET", path).status_code == 404

    def _grant(self, client: Client) -> str:
        """A grant over later calls of that user, given by the owner."""
        before = {grant["grant_id"] for grant in self.admin.get("/grants")["items"]}
        text = fresh("granted")
        parked = client.chat(call("steady_line", text))
        wish = {"scope": "user", "args": {"text": text}}
        self.admin.decided(parked["thread_id"], approve(parked["approvals"][0], grant=wish))
        [made] = [one for one in self.admin.get("/grants")["items"] if one["grant_id"] not in before]
        return str(made["grant_id"])

    def state(self) -> Json:
        """What a refused request must not have changed: the things kept so far, as an admin sees them."""
        seen: Json = {}
        for (kind, whose), value in self._kept.items():
            address = {"thread_id": "/threads/", "run_id": "/runs/", "action_id": "/approvals/"}.get(kind)
            if address:
                seen[f"{kind} {whose}"] = self.admin.request("GET", address + value).json()
        return seen
