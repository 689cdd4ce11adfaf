"""Notebooks run from top to bottom in a kernel of their own, and are stored with their outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
"""


def test_there_are_some():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_stored(path):
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    assert not any(
        output["output_type"] == "error" or output.get("name") == "stderr" for cell in cells for output in cell["outputs"]
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_they_run(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, str(path), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.iterdir()) == []
