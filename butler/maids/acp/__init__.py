"""Maids that speak the Agent Client Protocol, over the official SDK (D4)."""

from butler.maids.acp.client import Offer
from butler.maids.acp.launcher import AcpLauncher, default_offer

__all__ = ["AcpLauncher", "Offer", "default_offer"]
