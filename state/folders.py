"""What a folder needs beyond its files."""

import os
from pathlib import Path


def fsync_folder(folder: Path) -> None:
    """Make a folder's entries durable: after a power cut a file that was only written could be missing."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
