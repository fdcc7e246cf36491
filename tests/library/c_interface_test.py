"""The reference of the C interface says what the header says."""

import re
import unittest

from support import HERE

ROOT = HERE.parents[1]
LIBRARY = ROOT / "peer" / "library"


def flat(text):
    return re.sub(r"\s+", " ", text)


class CInterfaceTest(unittest.TestCase):
    def setUp(self):
        self.header = (LIBRARY / "grapevine.h").read_text()
        self.code = re.sub(r"/\*.*?\*/", "", self.header, flags=re.DOTALL)
        self.page = (ROOT / "docs" / "c-interface.md").read_text()

    def test_every_exported_function_is_there_as_it_is_declared(self):
        exported = set(re.findall(r"^\s+(gv_\w+);", (LIBRARY / "exports.map").read_text(), re.M))
        declared = {
            re.search(r"(gv_\w+)\(", one)[1]: flat(one)
            for one in re.findall(r"^GV_API (\w[^;]*);", self.code, re.M)
        }
        self.assertEqual(set(declared), exported)
        for name, declaration in declared.items():
            with self.subTest(name):
                self.assertIn(f"| `{declaration}` |", self.page)

    def test_every_field_of_a_struct_is_there_in_its_order_and_with_its_type(self):
        structs = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", self.code, re.DOTALL)
        self.assertEqual([name for name, _ in structs], ["gv_tensor", "gv_options", "gv_info"])
        rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", self.page, re.M)
        for name, body in structs:
            fields = re.findall(r"(\w[\w* ]*?[\s*])(\w+);", body)
            fields = [(field, kind.strip()) for kind, field in fields]
            with self.subTest(name):
                # The library reads it before it knows which other fields there are.
                self.assertEqual(fields[0], ("size", "size_t"))
                self.assertEqual(rows[: len(fields)], fields)
            rows = rows[len(fields) :]
        self.assertEqual(rows, [])

    def test_every_number_is_there_with_its_value(self):
        numbers = re.findall(r"\b(GV_\w+) = (\d+)", self.code)
        self.assertGreater(len(numbers), 14)
        for name, value in numbers:
            with self.subTest(name):
                self.assertRegex(self.page, rf"\| `{name}` \| {value} \|")
        self.assertIn("`GV_ABI`", self.page)

    def test_the_page_names_nothing_else(self):
        known = set(re.findall(r"\b(?:gv|GV)_\w+", self.header))
        self.assertEqual(set(re.findall(r"\b(?:gv|GV)_\w+", self.page)) - known, set())


if __name__ == "__main__":
    unittest.main()
