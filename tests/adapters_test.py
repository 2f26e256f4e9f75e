"""Adapters of `reprise serve` seen from outside. Usage: adapters_test.py PATH_TO_REPRISE MODEL, a small qwen3_5_text"""

import http.client
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

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


class Server:
    """With two adapters of the configuration, and a folder of others. Killed at the end."""

    def __init__(self, folder, extra=""):
        config = os.path.join(folder, "reprise.toml")
        with open(config, "w") as file:
            file.write(f'[http]\nport = 0\n[engine]\ndevice = "cpu"\nstate_mb = 64\nadapter_folder = "{folder}/more"\n'
                       f'[[models]]\nname = "m"\npath = "{MODEL}"\n'
                       f'[[models.adapters]]\nname = "one"\npath = "{folder}/one"\n'
                       f'[[models.adapters]]\nname = "two"\npath = "{folder}/two"\n' + extra)
        self.process = subprocess.Popen([PROGRAM, "serve", "--config", config], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(found.group(1))
                break
        else:
            raise RuntimeError("the server ended before it listened")
        limit = time.monotonic() + 120
        while self.request("GET", "/health")[0] != 200:
            if time.monotonic() > limit:
                raise RuntimeError("the model was not loaded in time")
            time.sleep(0.05)

    def close(self):
        self.process.kill()
        self.process.communicate()

    def request(self, method, path, body=None, key=None):
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer)

    def complete(self, **body):
        body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "return_token_ids": True, "ignore_eos": True, **body}
        return self.request("POST", "/v1/completions", body)


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        for seed, name in enumerate(["one", "two", "more/three"]):
            write_adapter(os.path.join(cls.folder, name), seed)
        cls.server = Server(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.scratch.cleanup()

    def ids(self, **body):
        status, answer = self.server.complete(**body)
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["token_ids"], answer

    def test_are_listed_and_chosen(self):
        status, models = self.server.request("GET", "/v1/models")
        listed = {model["id"]: model["parent"] for model in models["data"]}
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
            status, answer = self.server.complete(**body)
            self.assertEqual(status, 404)
            self.assertEqual(answer["error"]["code"], "model_not_found")
            self.assertIn("no adapter 'four'; it has one, two", answer["error"]["message"])

    def test_come_and_go(self):
        load, unload = "/admin/adapters/load", "/admin/adapters/unload"
        status, answer = self.server.request("POST", load, {"name": "three", "path": "three"})
        self.assertEqual(status, 200, answer)
        self.assertEqual((answer["id"], answer["rank"]), ("m:three", 4))
        three, _ = self.ids(model="m:three")
        self.assertEqual(self.server.request("POST", load, {"name": "three", "path": "three"})[0], 200)
        status, listed = self.server.request("GET", "/admin/adapters")
        self.assertIn("m:three", [one["id"] for one in listed["adapters"]])
        self.assertEqual(self.server.request("POST", unload, {"name": "three", "model": "m"})[0], 200)
        self.assertEqual(self.server.complete(model="m:three")[0], 404)
        self.assertEqual(self.server.request("POST", unload, {"name": "three"})[0], 404)
        self.assertEqual(self.server.request("POST", load, {"name": "three", "path": "three"})[0], 200)
        self.assertEqual(self.ids(model="m:three")[0], three)
        self.assertEqual(self.server.request("POST", unload, {"name": "three"})[0], 200)

    def test_paths_stay_in_their_folder(self):
        load = "/admin/adapters/load"
        for path in ("../one", "/etc", "three/../../one", f"{self.folder}/one"):
            status, answer = self.server.request("POST", load, {"name": "x", "path": path})
            self.assertEqual(status, 400, path)
            self.assertIn("engine.adapter_folder", answer["error"]["message"])
        self.assertEqual(self.server.request("POST", load, {"name": "x", "path": "nothing"})[0], 400)
        self.assertEqual(self.server.request("POST", load, {"name": "x"})[0], 404)
        self.assertEqual(self.server.request("POST", load, {"path": "three"})[0], 400)

    def test_commands_take_an_adapter(self):
        one = os.path.join(self.folder, "one")
        inspected = subprocess.run([PROGRAM, "inspect", "--model", MODEL, "--adapter", one], capture_output=True,
                                   text=True, check=True)
        self.assertRegex(inspected.stdout, r"adapter +\d+ matrices, rank 4, ")
        command = [PROGRAM, "generate", "--model", MODEL, "--device", "cpu", "--json", "--ignore-eos", "--temperature", "0",
                   "--max-tokens", "8", "--tokens", " ".join(map(str, PROMPT))]
        said = subprocess.run([*command, "--adapter", one], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(said.stdout)["tokens"], self.ids(model="m:one")[0])
        broken = subprocess.run([*command, "--adapter", MODEL], capture_output=True, text=True)
        self.assertEqual(broken.returncode, 1)
        self.assertIn("adapter_config.json", broken.stderr)


class Operators(unittest.TestCase):
    def test_alone_may_load(self):
        with tempfile.TemporaryDirectory() as folder:
            for seed, name in enumerate(["one", "two"]):
                write_adapter(os.path.join(folder, name), seed)
            server = Server(folder, '[[keys]]\nkey = "a-key-of-a-guest"\ntenant = "guest"\n'
                                    '[[keys]]\nkey = "a-key-of-the-chief"\ntenant = "chief"\noperator = true\n')
            try:
                unload = "/admin/adapters/unload"
                self.assertEqual(server.request("POST", unload, {"name": "one"})[0], 401)
                self.assertEqual(server.request("POST", unload, {"name": "one"}, key="a-key-of-a-guest")[0], 403)
                self.assertEqual(server.request("POST", unload, {"name": "one"}, key="a-key-of-the-chief")[0], 200)
            finally:
                server.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
