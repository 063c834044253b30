"""Maids that speak the Agent Client Protocol, over the official SDK (D4)."""

from butler.maids.acp.launcher import AcpLauncher, default_offer
from butler.maids.acp.offer import Offer

__all__ = ["AcpLauncher", "Offer", "default_offer"]
