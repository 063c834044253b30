"""Who may do what on every route, what may be sent, and what never shows; from the OpenAPI document."""
