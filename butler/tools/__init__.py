"""Tools: what the model may propose, checked against their schemas, and how declared ones run."""
