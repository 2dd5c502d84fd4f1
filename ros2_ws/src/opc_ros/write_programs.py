"""Write one executable for each node into the folder given, and print their paths as a CMake list."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from opc_ros.bringup.nodes import PROGRAMS

PROGRAM = """#!/usr/bin/env python3
import sys

from {module} import main

sys.exit(main())
"""

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for program, module in PROGRAMS.items():
    (folder / program).write_text(PROGRAM.format(module=module))
print(*(folder / program for program in PROGRAMS), sep=";")
