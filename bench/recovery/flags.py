"""The flags that several programs here have, with one meaning and one spelling."""

import argparse
from pathlib import Path

SHARED = {
    "--pace": {"type": Path, "required": True, "help": "the program; the trainers are beside it"},
    "--out": {"type": Path, "help": "JSON file, with every sample"},
    "--seed": {"type": int, "default": 1, "help": "of what is drawn at random"},
}


def parser(description: str, *names: str) -> argparse.ArgumentParser:
    """With the shared flags of these names; a program adds its own."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        made.add_argument(name, **SHARED[name])
    return made
