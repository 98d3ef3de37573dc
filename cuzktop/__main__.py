"""`python -m cuzktop` is the command `cuzktop`."""

import sys

from cuzktop.cli import main

if __name__ == "__main__":
    sys.exit(main())
