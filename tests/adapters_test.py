"""Adapters of `reprise serve` seen from outside. Usage: adapters_test.py PATH_TO_REPRISE MODEL, a small qwen3_5_text"""

import json
import os
import random
import re
import struct
import sys
import tempfile
import unittest

import server

PROGRAM = sys.argv.pop(1)
MODEL = sys.argv.pop(1)
PROMPT = [(7 * i) % 400 + 3 for i in range(120)]


def shapes_of_model():
    """{name: shape} of the model's matrices, from the header of its tensors."""
    with open(os.path.join(MODEL, "model.safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


def write_adapter(folder, seed, rank=4):
    """A PEFT folder with random changes of the projections of attention."""
    numbers = random.Random(seed)
    header, data = {}, b""
    for name, shape in shapes_of_model().items():
        found = re.search(r"(layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.down_proj))\.weight$", name)
        if not found:
            continue
        for half, dims in (("A", [rank, shape[1]]), ("B", [shape[0], rank])):
            count = dims[0] * dims[1]
            bytes_ = struct.pack(f"<{count}f", *(numbers.gauss(0, 0.2) for _ in range(count)))
            header[f"base_model.model.model.{found.group(1)}.lora_{half}.weight"] = {
                "dtype": "F32", "shape": dims, "data_offsets": [len(data), len(data) + len(bytes_)]}
            data += bytes_
    os.makedirs(folder)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none"}, file)


def serve(folder, extra=""):
    """With two adapters of the configuration, and a folder of others."""
    config = os.path.join(folder, "reprise.toml")
    with open(config, "w") as file:
        file.write(f'[engine]\nstate_mb = 64\nadapter_folder = "{folder}/more"\n'
                   f'[[models]]\nname = "m"\npath = "{MODEL}"\n'
                   f'[[models.adapters]]\nname = "one"\npath = "{folder}/one"\n'
                   f'[[models.adapters]]\nname = "two"\npath = "{folder}/two"\n' + extra)
    return server.Server(PROGRAM, "--config", config).wait_until_ready()


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        for seed, name in enumerate(["one", "two", "more/three"]):
            write_adapter(os.path.join(cls.folder, name), seed)
        cls.server = serve(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.scratch.cleanup()

    def complete(self, **body):
        return self.server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "return_token_ids": True,
                                                    "ignore_eos": True, **body})

    def ids(self, **body):
        answer = self.complete(**body)
        self.assertEqual(answer.status, 200, answer.data)
        return answer.json()["choices"][0]["token_ids"], answer.json()

    def load(self, **body):
        return self.server.post("/admin/adapters/load", body)

    def unload(self, **body):
        return self.server.post("/admin/adapters/unload", body).status

    def test_are_listed_and_chosen(self):
        listed = {model["id"]: model["parent"] for model in self.server.get("/v1/models").json()["data"]}
        self.assertEqual({"m": None, "m:one": "m", "m:two": "m"}, {k: v for k, v in listed.items() if "three" not in k})
        plain, _ = self.ids(model="m")
        one, answer = self.ids(model="m:one")
        self.assertEqual(answer["model"], "m:one")
        self.assertEqual(one, self.ids(model="m", adapter="one")[0])
        self.assertNotEqual(one, plain)
        self.assertNotEqual(one, self.ids(model="m:two")[0])

    def test_states_are_apart(self):
        first = self.ids(model="m:two", cache_salt="apart")[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
        other = self.ids(model="m:one", cache_salt="apart")[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
        again = self.ids(model="m:two", cache_salt="apart")[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual([first, other], [0, 0])
        self.assertGreater(again, 60)

    def test_unknown_ones_are_named(self):
        for body in ({"model": "m:four"}, {"model": "m", "adapter": "four"}):
            answer = self.complete(**body)
            self.assertEqual(answer.status, 404)
            self.assertEqual(answer.json()["error"]["code"], "model_not_found")
            self.assertIn("no adapter 'four'; its adapters are one, two", answer.json()["error"]["message"])

    def test_come_and_go(self):
        answer = self.load(name="three", path="three")
        self.assertEqual(answer.status, 200, answer.data)
        self.assertEqual((answer.json()["id"], answer.json()["rank"]), ("m:three", 4))
        three, _ = self.ids(model="m:three")
        self.assertEqual(self.load(name="three", path="three").status, 200)
        self.assertIn("m:three", [one["id"] for one in self.server.get("/admin/adapters").json()["adapters"]])
        self.assertEqual(self.unload(name="three", model="m"), 200)
        self.assertEqual(self.complete(model="m:three").status, 404)
        self.assertEqual(self.unload(name="three"), 404)
        self.assertEqual(self.load(name="three", path="three").status, 200)
        self.assertEqual(self.ids(model="m:three")[0], three)
        self.assertEqual(self.unload(name="three"), 200)

    def test_paths_stay_in_their_folder(self):
        for path in ("../one", "/etc", "three/../../one", f"{self.folder}/one"):
            answer = self.load(name="x", path=path)
            self.assertEqual(answer.status, 400, path)
            self.assertIn("engine.adapter_folder", answer.json()["error"]["message"])
        self.assertEqual(self.load(name="x", path="nothing").status, 400)
        self.assertEqual(self.load(name="x").status, 404)
        self.assertEqual(self.load(path="three").status, 400)

    def test_commands_take_an_adapter(self):
        one = os.path.join(self.folder, "one")
        inspected = server.run(PROGRAM, "inspect", "--model", MODEL, "--adapter", one)
        self.assertRegex(inspected.stdout, r"adapter +\d+ matrices, rank 4, ")
        command = [PROGRAM, "generate", "--model", MODEL, "--device", "cpu", "--json", "--ignore-eos", "--temperature", "0",
                   "--max-tokens", "8", "--tokens", " ".join(map(str, PROMPT))]
        said = server.run(*command, "--adapter", one)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(json.loads(said.stdout)["tokens"], self.ids(model="m:one")[0])
        broken = server.run(*command, "--adapter", MODEL)
        self.assertEqual(broken.returncode, 1)
        self.assertIn("adapter_config.json", broken.stderr)


class Operators(unittest.TestCase):
    def test_alone_may_load(self):
        with tempfile.TemporaryDirectory() as folder:
            for seed, name in enumerate(["one", "two"]):
                write_adapter(os.path.join(folder, name), seed)
            with serve(folder, '[[keys]]\nkey = "a-key-of-a-guest"\ntenant = "guest"\n'
                               '[[keys]]\nkey = "a-key-of-the-chief"\ntenant = "chief"\noperator = true\n') as served:
                for key, status in (None, 401), ("a-key-of-a-guest", 403), ("a-key-of-the-chief", 200):
                    self.assertEqual(served.post("/admin/adapters/unload", {"name": "one"}, key=key).status, status)


if __name__ == "__main__":
    unittest.main(verbosity=2)
