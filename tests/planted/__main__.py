"""Plant every bug, one by one: `python -m tests.planted`."""

import sys

from tests.planted.planting import main

main(sys.argv[1:])
