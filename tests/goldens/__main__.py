"""Says how the texts differ from their files, and with `--update` writes them."""

from __future__ import annotations

import argparse
import sys

from tests.goldens.texts import HERE, TEXTS, changed, written


def main() -> int:
    """0 where nothing differs or everything was written, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the texts; files that nothing gives any more are removed")
    update = parser.parse_args().update
    texts = {file: text() for file, text in TEXTS.items()}
    diffs = [changed(file, text) for file, text in texts.items()]
    stale = sorted(written() - set(texts))
    sys.stdout.write("".join(diffs) + "".join(f"nothing gives tests/goldens/{file}\n" for file in stale))
    if update:
        for file in stale:
            (HERE / file).unlink()
        for file, text in texts.items():
            (HERE / file).parent.mkdir(exist_ok=True)
            (HERE / file).write_text(text)
    return int(not update and (any(diffs) or bool(stale)))


if __name__ == "__main__":
    sys.exit(main())
