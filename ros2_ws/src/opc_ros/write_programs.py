"""Write one executable for each node into the given folder, and print their paths as a CMake list."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from opc_ros.bringup.nodes import PROGRAMS

# Run by the Python that built the workspace, which may belong to a virtual environment. A program may start processes
# (the twin's camera does), which import it again, so it needs the guard.
PROGRAM = """#!{python}
import sys

from {module} import main

if __name__ == "__main__":
    sys.exit(main())
"""

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for program, module in PROGRAMS.items():
    path = folder / program
    path.write_text(PROGRAM.format(python=sys.executable, module=module))
    path.chmod(0o755)  # `colcon build --symlink-install` links to this file as it is
print(*(folder / program for program in PROGRAMS), sep=";")
