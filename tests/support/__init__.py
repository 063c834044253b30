"""What the tests stand on: a scripted model endpoint, a server process, a client."""
