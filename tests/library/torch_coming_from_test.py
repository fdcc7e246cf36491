"""The snippets of docs/coming-from.md that use Grapevine work in whole programs, and these
learn."""

import json
import re
import sys
import unittest

from support import BINARY, HERE, FolderTest, run

try:
    import torch  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

PAGE = HERE.parents[1] / "docs" / "coming-from.md"

RUN = """
[run]
steps = 60
peers = 2
wait_for_peers = 2
linger_s = 20.0
wait_max_s = 60.0
[train]
batch = 32
"""

# What the page leaves to the reader: a model, a loss, data, and for arrays a gradient.
BEFORE = """
import json, os
os.chdir(os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Linear(6, 3)
f = nn.CrossEntropyLoss()
weights = np.zeros(4, np.float32)
part = int(json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/")[0])
random = torch.Generator().manual_seed(part)
inputs = torch.randn(512, 6, generator=random)
dataset = torch.utils.data.TensorDataset(inputs, inputs[:, :3].argmax(1))
loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True)

def slope(weights):
    return weights - np.arange(4, dtype=np.float32) - part

def losses():
    with torch.no_grad():
        loss = f(model(inputs), inputs[:, :3].argmax(1)).item()
    return [loss, float(np.square(slope(weights) + part - 0.5).sum())]

before = losses()
"""

AFTER = """
vine.leave()
print(json.dumps({"before": before, "after": losses(), "is_over": vine.is_over}))
"""


class ComingFromTest(FolderTest):
    def test_each_section_has_their_lines_and_ours_and_ours_learn(self):
        sections = re.split(r"^## From ", PAGE.read_text(), flags=re.M)[1:]
        self.assertGreaterEqual(len(sections), 6)
        for section in sections:
            name = section.split("\n", 1)[0]
            with self.subTest(name):
                blocks = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.DOTALL)
                self.assertEqual(len(blocks), 2)
                theirs, ours = blocks
                compile(theirs, name, "exec")
                self.assertNotIn("grapevine", theirs)
                self.assertTrue(ours.startswith("# Grapevine"))
                self.check(name, ours)

    def check(self, name, snippet):
        folder = self.folder / name
        folder.mkdir()
        (folder / "run.toml").write_text(RUN)
        (folder / "train.py").write_text(BEFORE + snippet + AFTER)
        ended = run(
            BINARY, "launch", "-n", "2", str(folder / "run.toml"), "--folder", str(folder / "run"),
            "--", sys.executable, str(folder / "train.py"),
        )  # fmt: skip
        logs = [(folder / "run" / f"peer-{n}" / "output.log").read_text() for n in range(2)]
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr + "".join(logs))
        self.assertIn("one model    2 of 2 peers", ended.stdout)
        for log in logs:
            found = json.loads(log.strip().splitlines()[-1])
            self.assertTrue(found["is_over"])
            at = 1 if "weights" in snippet else 0
            self.assertLess(found["after"][at], found["before"][at])


if __name__ == "__main__":
    unittest.main()
