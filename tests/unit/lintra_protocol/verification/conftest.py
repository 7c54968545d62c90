"""The plain reference stands beside the vectors that it writes; here it is asked directly."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "vectors"))
