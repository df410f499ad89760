"""`python -m taut` is the command `taut`."""

import sys

from taut.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
