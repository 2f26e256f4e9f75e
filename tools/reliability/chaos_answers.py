"""What was asked and answered: the same question must have the same answer, cached or cold, before a fault or after it."""
import json
import random


class Answers:
    def __init__(self):
        self.known = {}  # question -> (answer, times)
        self.differing = []

    def note(self, question, answer):
        """`question`: the path and the body without what must not matter; `answer`: the tokens of each choice."""
        key = json.dumps(question, sort_keys=True)
        before, times = self.known.get(key, (answer, 0))
        self.known[key] = (before, times + 1)
        if before != answer:
            self.differing.append({"question": question, "one": before, "other": answer})

    def total(self):
        return sum(times for _, times in self.known.values())

    def sample(self, most, seed):
        """Questions to ask again, spread over the run, with the answers they had."""
        keys = list(self.known)
        if len(keys) > most:
            keys = random.Random(seed).sample(keys, most)
        return [(json.loads(key), self.known[key][0]) for key in keys]


def tokens_of(choices):
    """Of the choices of a whole answer, or of those put together from a stream."""
    return [choice["token_ids"] for choice in sorted(choices, key=lambda one: one["index"])]
