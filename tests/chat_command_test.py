"""`reprise chat` seen from outside, on a model with random weights.
Usage: chat_command_test.py REPRISE REPRISE_RANDOM_MODEL FOLDER_WITH_TOKENIZER MODEL_WITHOUT_TOKENIZER"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from server import PATIENCE, Server, environment, on_cpu, run

TOKEN_MODEL = sys.argv.pop(4)
TOKENIZER = sys.argv.pop(3)
RANDOM_MODEL = sys.argv.pop(2)
PROGRAM = sys.argv.pop(1)

TEMPLATE = """{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false -%}
<think>

</think>

{% else -%}
<think>
{% endif -%}
{%- endif -%}
"""

STATUS = re.compile(r"^\[(\d+) tokens(?:, [\d.]+ a second)?(?:, first after [\d.]+ ms)?([^;\]]*); prompt of (\d+), "
                    r"(\d+) from the cache(?: \((\w+)\))?, (\d+) computed(?: \(([a-z ]+?)(?: after (\d+))?\))?\]\r?$",
                    re.MULTILINE)


# Ctrl-C as it is echoed. The mark that ends bracketed paste is written by the program, and may come between the two.
GIVEN_UP = re.compile(rb"\^C(\x1b\[\?2004l)?\r\n")


class Turn:
    """A status line."""

    def __init__(self, fields):
        self.tokens, self.end, self.origin, self.reason = int(fields[0]), fields[1], fields[4], fields[6]
        self.prompt, self.restored, self.prefilled = int(fields[2]), int(fields[3]), int(fields[5])


class Ended:
    """A chat that was held with lines from a pipe."""

    def __init__(self, lines, *arguments, model=None):
        text = lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode()
        ended = run(*command(*arguments, model=model), input=text, text=False)
        self.status = ended.returncode
        self.output = ended.stdout
        self.errors = ended.stderr.decode()
        self.turns = [Turn(fields) for fields in STATUS.findall(self.errors)]


def command(*arguments, model=None, most=12):
    return on_cpu(PROGRAM, "chat", "--model", model or Chat.model, "--threads", "1", "--temperature", "0",
                  "--max-tokens", str(most), *arguments)


def start(*arguments, stdout=subprocess.PIPE, **more):
    return subprocess.Popen(command(*arguments, **more), stdin=subprocess.PIPE, stdout=stdout,
                            stderr=subprocess.PIPE, env=environment())


def read_until(file, pattern, seen=b""):
    """What has been seen and comes from this descriptor up to the pattern, and what is behind it."""
    while not (found := re.search(pattern, seen)):
        ready, _, _ = select.select([file], [], [], PATIENCE)
        try:
            piece = os.read(file, 65536) if ready else b""
        except OSError:  # how a terminal ends whose other side is closed
            piece = b""
        if not piece:
            raise AssertionError(f"{pattern} did not come: {seen}")
        seen += piece
    return seen[:found.end()], seen[found.end():]


def setUpModule():
    """Models with random weights: one with a chat template, and one without."""
    Chat.folder = tempfile.TemporaryDirectory()
    Chat.model = os.path.join(Chat.folder.name, "random")
    run(RANDOM_MODEL, "--out", Chat.model, "--shape", "qwen3_5-tiny", "--vocab", "4096", check=True)
    shutil.copy(os.path.join(TOKENIZER, "tokenizer.json"), Chat.model)
    Chat.without_template = os.path.join(Chat.folder.name, "plain")
    shutil.copytree(Chat.model, Chat.without_template)
    with open(os.path.join(Chat.model, "chat_template.jinja"), "w") as file:
        file.write(TEMPLATE)


def tearDownModule():
    Chat.folder.cleanup()


class Chat(unittest.TestCase):
    def assert_well(self, chat, turns):
        self.assertEqual(chat.status, 0, chat.errors)
        self.assertEqual(len(chat.turns), turns, chat.errors)

    def test_two_turns_restore_and_say_what_a_cold_chat_says(self):
        lines = ["Tell me about rivers, please.", "And about the sea?"]
        for device in "cpu", "cpu-grid":
            long = ["--device", device, "--no-think", "--system", "You are a patient teacher. " * 40]
            warm = Ended(lines, *long)
            self.assert_well(warm, 2)
            first, second = warm.turns
            self.assertEqual((first.restored, first.reason), (0, "never seen"))
            self.assertGreater(second.restored, 64)
            self.assertLess(second.prefilled, second.restored)
            cold = Ended(lines, *long, "--no-cache")
            self.assert_well(cold, 2)
            self.assertEqual([(turn.restored, turn.reason) for turn in cold.turns], [(0, "disabled")] * 2)
            self.assertEqual([turn.prompt for turn in cold.turns], [turn.prompt for turn in warm.turns])
            self.assertEqual(cold.output, warm.output)
            self.assertNotEqual(warm.output, b"")

    def test_regen_restores_all_but_one_token(self):
        once = Ended(["How tall are trees?"], "--no-think")
        twice = Ended(["How tall are trees?", "/regen"], "--no-think")
        self.assert_well(twice, 2)
        self.assertEqual(twice.output, once.output * 2)  # greedy
        self.assertEqual(twice.turns[1].prefilled, 1)
        self.assertEqual(twice.turns[1].prompt, twice.turns[0].prompt)
        self.assertEqual(Ended(["How tall are trees?", "/regenerate"], "--no-think").output, twice.output)

    def test_reset_and_undo_take_turns_back(self):
        once = Ended(["One.", "Two."], "--no-think")
        chat = Ended(["One.", "/reset", "One.", "Two.", "/undo", "Two."], "--no-think")
        self.assert_well(chat, 4)
        sizes = [turn.prompt for turn in chat.turns]
        first, second = [turn.prompt for turn in once.turns]
        self.assertEqual(sizes, [first, first, second, second])
        self.assertEqual(chat.turns[1].prefilled, 1)
        one = Ended(["One."], "--no-think").output
        two = once.output[len(one):]
        self.assertEqual(chat.output, one + one + two + two)

    def test_system_message_comes_and_goes(self):
        chat = Ended(["/system Be brief.", "One.", "/reset", "/system", "One."], "--no-think")
        self.assert_well(chat, 2)
        self.assertGreater(chat.turns[0].prompt, chat.turns[1].prompt)

    def test_stats_help_and_the_end(self):
        chat = Ended(["/stats", "Hello.", "Hello again.", "/stats", "/help", "/quit", "never said"], "--no-think")
        self.assert_well(chat, 2)
        restored = sum(turn.restored for turn in chat.turns)
        self.assertIn("[0 replies, 0 prompt tokens: 0 restored", chat.errors)
        self.assertRegex(chat.errors, rf"\[2 replies, \d+ prompt tokens: {restored} restored \(.*snapshots of")
        self.assertIn("/regen", chat.errors)

    def test_bad_input_is_named_and_changes_nothing(self):
        plain = Ended(["One.", "Two."], "--no-think")
        commands = b"/regen\n/undo\n/nonsense\n/exit now\n\n   \n"
        too_long = b"x" * (1 << 20) + b"x\n"
        chat = Ended(commands + b"One.\nbad \xff byte\n" + too_long + b"Two.", "--no-think")
        self.assertEqual(chat.status, 1)
        self.assertEqual(chat.output, plain.output)
        for text in ("/regen: there is no reply yet", "/undo: there is nothing", "no command /nonsense",
                     "/exit takes no arguments", "byte 5 of the line is not UTF-8", "at most 1048576 bytes"):
            self.assertIn(text, chat.errors)
        self.assertEqual([turn.prompt for turn in chat.turns], [turn.prompt for turn in plain.turns])

    def test_three_quotes_hold_several_lines(self):
        one = Ended(["First line."], "--no-think")
        for lines in (['"""', "First line.", "Second line.", '"""'], ['"""First line.', 'Second line."""']):
            several = Ended(lines, "--no-think")
            self.assert_well(several, 1)
            self.assertGreater(several.turns[0].prompt, one.turns[0].prompt)
        self.assert_well(Ended(['"""/exit', 'is what ends it."""'], "--no-think"), 1)
        self.assert_well(Ended(['"""Never ended', "before the end"], "--no-think"), 1)

    def test_a_conversation_is_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "with spaces.json")
            whole = Ended(["One.", f"/save {path}", "Two."], "--no-think", "--system", "Be brief.")
            self.assert_well(whole, 2)
            with open(path) as file:
                messages = json.load(file)["messages"]
            self.assertEqual([message["role"] for message in messages], ["system", "user", "assistant"])
            again = Ended([f"/load {path}", "Two."], "--no-think")
            self.assert_well(again, 1)
            self.assertIn("[3 messages are loaded]", again.errors)
            self.assertEqual(again.turns[0].prompt, whole.turns[1].prompt)
            self.assertTrue(whole.output.endswith(again.output))
            with open(path, "w") as file:
                file.write('{"messages": [{"role": "assistant", "content": "I begin"}]}')
            for command, words in [(f"/load {path}", "message 0 is not a text message of the user"), ("/load /nowhere/x", "No such file"),
                                   ("/save /nowhere/x", "cannot write /nowhere/x"), ("/load", "the file is missing")]:
                failed = Ended([command, "One."], "--no-think")
                self.assertEqual(len(failed.turns), 1)
                self.assertIn(words, failed.errors)

    def test_two_slashes_say_one(self):
        said = Ended(["//etc is a folder."], "--no-think")
        self.assert_well(said, 1)

    def test_a_message_that_does_not_fit_is_refused_and_the_chat_goes_on(self):
        small = os.path.join(self.folder.name, "small")
        run(RANDOM_MODEL, "--out", small, "--shape", "qwen3_5-tiny", "--vocab", "4096", "--context", "64", check=True)
        for name in "tokenizer.json", "chat_template.jinja":
            shutil.copy(os.path.join(self.model, name), small)
        chat = Ended(["many words " * 100, "One."], "--no-think", model=small)
        self.assertEqual(chat.status, 1)
        self.assertEqual(len(chat.turns), 1)
        self.assertRegex(chat.errors, r"the prompt has \d+ tokens and the model's context 64; the conversation is as")

    def test_models_that_cannot_chat(self):
        for model, what in (self.without_template, "no chat template"), (TOKEN_MODEL, "no tokenizer"):
            chat = Ended(["Hello."], model=model)
            self.assertEqual((chat.status, chat.output), (2, b""))
            self.assertIn(what, chat.errors)
            self.assertIn("reprise generate", chat.errors)

    def test_bad_flags(self):
        for arguments in ["--device", "abacus"], ["--compute", "f7"], ["--temperature"]:
            self.assertEqual(Ended([], *arguments).status, 2)
        missing = Ended([], model="/nowhere/at/all")
        self.assertEqual(missing.status, 1)
        self.assertIn("/nowhere/at/all", missing.errors)

    def test_interrupt_ends_the_reply_alone(self):
        with start("--no-think", most=200000) as chat:
            chat.stdin.write(b"Talk on and on.\n")
            chat.stdin.flush()
            read_until(chat.stdout.fileno(), rb"(?s).")
            chat.send_signal(signal.SIGINT)
            _, errors = chat.communicate(b"/stats\n", timeout=PATIENCE)
        turns = [Turn(fields) for fields in STATUS.findall(errors.decode())]
        self.assertEqual([turn.end for turn in turns], [", stopped"])
        self.assertIn("[1 replies", errors.decode())
        self.assertEqual(chat.returncode, 0)

    def test_interrupt_at_the_prompt_ends_the_chat(self):
        with start("--no-think") as chat:
            chat.stdin.write(b"Hello.\n")
            chat.stdin.flush()
            read_until(chat.stderr.fileno(), rb"\[\d+ tokens.*\n")
            chat.send_signal(signal.SIGINT)
            self.assertEqual(chat.wait(timeout=PATIENCE), 0)

    def test_reasoning_is_dimmed_on_a_terminal_and_left_out_elsewhere(self):
        piped = Ended(["Think."])
        self.assert_well(piped, 1)
        self.assertEqual(piped.output, b"")
        self.assertEqual(piped.turns[0].tokens, 12)
        ours, theirs = pty.openpty()
        with start(stdout=theirs) as chat:
            os.close(theirs)
            chat.communicate(b"Think.\n", timeout=PATIENCE)
        with os.fdopen(ours, closefd=True):
            read_until(ours, rb"(?s)^\x1b\[2m.+\x1b\[0m")


class Terminal:
    """A chat at a terminal of so many columns."""

    def __init__(self, *arguments, columns=80):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.terminal, self.seen = ours, b""
        self.process = subprocess.Popen(command("--no-think", *arguments), stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, env=environment({"TERM": "xterm"}),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.terminal)

    def type(self, keys):
        os.write(self.terminal, keys)

    def wait_for(self, pattern):
        """What came up to the pattern, which is then behind us."""
        before, self.seen = read_until(self.terminal, pattern, self.seen)
        return before


class AtATerminal(unittest.TestCase):
    def test_keys_edit_the_line_and_bring_lines_back(self):
        with Terminal() as chat:
            chat.wait_for(rb"> ")
            chat.type(b"/nonsensf\x7fX\x1b[D\x1b[3~e\n")  # a letter taken back; a cursor to the left, and Delete
            chat.wait_for(rb"there is no command /nonsense;")
            chat.wait_for(rb"> ")
            chat.type(b"b\x01/a\n")  # Ctrl-A
            chat.wait_for(rb"there is no command /ab;")
            chat.wait_for(rb"> ")
            chat.type(b"\x1b[A\x1b[A\n")  # two lines back
            chat.wait_for(rb"there is no command /nonsense;")
            chat.wait_for(rb"> ")
            chat.type("/ö€𝄞\n".encode())
            chat.wait_for("there is no command /ö€𝄞;".encode())
            chat.wait_for(rb"> ")
            chat.type(b"Hello.\n")
            answered = chat.wait_for(rb"\[\d+ tokens[^\n]*\]")
            self.assertNotIn(b"^[[", answered)
            chat.wait_for(rb"> ")
            chat.type(b"\x04")
            self.assertEqual(chat.process.wait(timeout=PATIENCE), 0)

    def test_ctrl_c_throws_a_line_away_and_ends_an_empty_one(self):
        with Terminal() as chat:
            chat.wait_for(rb"> ")
            # The terminal itself may echo the letters before the editor reads them; only the editor moves the cursor.
            chat.type(b"half a line\x1b[D")
            chat.wait_for(rb"(?s)half a line.*\x08")
            chat.type(b"\x03")
            chat.wait_for(GIVEN_UP)
            chat.wait_for(rb"> ")
            chat.type(b"/nonsense\n")  # nothing of the line before is left
            chat.wait_for(rb"there is no command /nonsense;")
            chat.wait_for(rb"> ")
            chat.type(b"\x03")
            self.assertEqual(chat.process.wait(timeout=PATIENCE), 0)

    def test_pasted_lines_are_one_message(self):
        with Terminal() as chat:
            chat.wait_for(rb"\x1b\[\?2004h")
            chat.wait_for(rb"> ")
            chat.type(b"\x1b[200~/first\rsecond\x1b[201~")
            chat.wait_for(rb"second")
            chat.type(b"\n")
            chat.wait_for(rb"there is no command /first\r\nsecond;")
            chat.wait_for(rb"> ")
            chat.type(b"\x1b[200~Hello.\rHow are you?\x1b[201~\n")
            chat.wait_for(rb"\[\d+ tokens[^\n]*\]")
            chat.wait_for(rb"> ")
            chat.type(b"/stats\n")
            chat.wait_for(rb"\[1 replies")

    def test_alt_enter_begins_a_line(self):
        with Terminal() as chat:
            chat.wait_for(rb"> ")
            chat.type(b"/one\x1b\ntwo\n")
            chat.wait_for(rb"there is no command /one\r\ntwo;")

    def test_ctrl_c_gives_up_a_message_of_several_lines(self):
        with Terminal() as chat:
            chat.wait_for(rb"> ")
            chat.type(b'"""\n')
            chat.wait_for(rb"\. ")
            chat.type(b"\x03")
            chat.wait_for(GIVEN_UP)
            chat.wait_for(rb"> ")
            chat.type(b"/stats\n")
            chat.wait_for(rb"\[0 replies")

    def test_the_status_does_not_wrap(self):
        for columns in 30, 60, 80, 200:
            with Terminal(columns=columns) as chat:
                chat.wait_for(rb"> ")
                chat.type(b"Hello.\n")
                line = re.search(rb"\[\d+ tokens[^\n]*\]", chat.wait_for(rb"\[\d+ tokens[^\n]*\]")).group(0)
                self.assertLess(len(line), columns)
                if columns >= 200:
                    self.assertIn(b"computed (never seen)", line)


class WithAServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--model", Chat.model, "--model-name", "served", "--threads", "1",
                            "--api-key", "a-secret-of-ours").wait_until_ready()
        cls.url = cls.server.url

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def chat(self, lines, *arguments, key="a-secret-of-ours", url=None):
        ended = run(PROGRAM, "chat", "--url", url or self.url, "--temperature", "0", "--max-tokens", "12", "--no-think", *arguments,
                    input="".join(line + "\n" for line in lines).encode(), text=False, variables={"REPRISE_API_KEY": key})
        turns = [Turn(fields) for fields in STATUS.findall(ended.stderr.decode())]
        return ended.returncode, ended.stdout, ended.stderr.decode(), turns

    def test_it_says_what_a_chat_without_one_says(self):
        lines = ["Tell me about rivers, please.", "And about the sea?", "/regenerate"]
        here = Ended(lines, "--no-think")
        status, output, errors, turns = self.chat(lines)
        self.assertEqual(status, 0, errors)
        self.assertIn("served at " + self.url, errors)
        self.assertEqual(output, here.output)
        self.assertEqual([turn.prompt for turn in turns], [turn.prompt for turn in here.turns])
        self.assertEqual(turns[2].prefilled, 1)
        self.assertEqual(self.chat(lines[:1], "--model", "served", url=self.url + "/v1/")[0], 0)

    def test_what_goes_wrong_is_told(self):
        for more, words in [(dict(key="wrong-secret"), "key"), (dict(url="http://127.0.0.1:9"), "127.0.0.1:9"),
                            (dict(url="file:///etc/passwd"), "file")]:
            status, output, errors, _ = self.chat(["Hello."], **more)
            self.assertEqual((status, output), (1, b""), errors)
            self.assertIn(words, errors)
        status, _, errors, _ = self.chat(["Hello."], "--model", "other")
        self.assertEqual(status, 1)
        self.assertIn("there is no model 'other'; served: served", errors)
        status, output, errors, turns = self.chat(["One."], "--top-p", "7")
        self.assertEqual((status, output, turns), (1, b"", []), errors)
        self.assertIn("top_p", errors)
        self.assertIn("the conversation is as before", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
