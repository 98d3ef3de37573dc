"""`python -m cuzktop` and the command `cuzktop`, from the first import on."""

import sys

INTERRUPTED = 130  # Ctrl-C


def main() -> int:
    """Run the command; the exit status. Ctrl-C ends it without a word while it is loading, too."""
    try:
        from cuzktop import cli  # noqa: PLC0415 - loading it is what may be interrupted

        return cli.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
