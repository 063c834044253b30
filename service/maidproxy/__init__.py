"""The loopback proxy between a maid and its model provider: keeps the key, counts, caps, and tells of trouble (D11)."""

from service.maidproxy.access import provider_access

__all__ = ["provider_access"]
