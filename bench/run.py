#!/usr/bin/env python3
"""Entry of the comparison benchmarks: `tools/dev bench` builds the programs and calls this."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from uksbench.cli import main  # noqa: E402

sys.exit(main())
