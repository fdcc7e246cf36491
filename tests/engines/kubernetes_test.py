"""The manifests for Kubernetes against the types of its API, as npm publishes them. No cluster runs here."""

import copy
import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "build/kubernetes/node_modules"
MANIFESTS = sorted((ROOT / "examples").glob("kubernetes*.yaml"))
LIMIT_S = 250
# Prints the documents of a file in YAML as a list in JSON.
READER = """
const documents = require("js-yaml").loadAll(require("fs").readFileSync(process.argv[1], "utf8"));
console.log(JSON.stringify(documents));
"""


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tools = all((MODULES / name).is_dir() for name in ("js-yaml", "kubernetes-types", "typescript"))
        if not shutil.which("node") or not tools:
            raise unittest.SkipTest("the types of Kubernetes are not here: scripts/test --kubernetes installs it")

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "node_modules").symlink_to(MODULES)

    def node(self, *words):
        return subprocess.run(
            ["node", *words], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S
        )

    def documents(self, manifest):
        read = self.node("-e", READER, str(manifest))
        self.assertEqual(read.returncode, 0, read.stderr)
        return json.loads(read.stdout)

    def problems(self, documents):
        """What the compiler says of the documents as values of their types: of unknown, missing and wrong fields."""
        lines = []
        for number, document in enumerate(documents):
            version = document["apiVersion"]
            module = version if "/" in version else f"core/{version}"
            lines += [
                f'import type {{ {document["kind"]} as Type{number} }} from "kubernetes-types/{module}";',
                f"export const object{number}: Type{number} = {json.dumps(document, indent=1)};",
            ]
        (self.folder / "manifest.ts").write_text("\n".join(lines))
        compiler = str(self.folder / "node_modules/typescript/bin/tsc")
        done = self.node(compiler, "--noEmit", "--strict", "--moduleResolution", "node", "manifest.ts")
        self.assertEqual(done.returncode != 0, bool(done.stdout), done.stderr)
        return done.stdout

    def test_every_object_has_the_fields_of_its_type(self):
        documents = [one for manifest in MANIFESTS for one in self.documents(manifest)]
        self.assertEqual(self.problems(documents), "")
        kinds = {document["kind"] for document in documents}
        self.assertEqual(kinds, {"Job", "PodDisruptionBudget", "Secret", "Service", "StatefulSet"})

    def test_a_misspelt_a_missing_and_a_wrong_field_are_found(self):
        documents = self.documents(ROOT / "examples/kubernetes.yaml")
        (sound,) = [one for one in documents if one["kind"] == "StatefulSet"]
        faults = {
            '"maxReplicas"\' does not exist': lambda spec: spec.update(maxReplicas=4),
            "'selector' is missing": lambda spec: spec.pop("selector"),
            "'string' is not assignable to type 'number'": lambda spec: spec.update(replicas="4"),
            '"startupProb"\' does not exist': lambda spec: spec["template"]["spec"]["containers"][0].update(
                startupProb={}
            ),
        }
        faulty = [copy.deepcopy(sound) for _ in faults]
        for document, fault in zip(faulty, faults.values()):
            fault(document["spec"])
        said = self.problems(faulty)
        for what in faults:
            self.assertIn(what, said)

    def test_there_are_as_many_ranks_as_pods(self):
        for manifest in MANIFESTS:
            for document in self.documents(manifest):
                if document["kind"] not in ("Job", "StatefulSet"):
                    continue
                spec = document["spec"]
                (script,) = spec["template"]["spec"]["containers"][0]["args"]
                pods = {spec[name] for name in ("replicas", "completions", "parallelism") if name in spec}
                self.assertEqual(len(pods), 1)
                self.assertIn(f"--ranks {pods.pop()} ", script)


if __name__ == "__main__":
    unittest.main()
