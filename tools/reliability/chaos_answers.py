"""Records answers: a question must always get the same answer, cached or cold, before or after faults."""
import json
import random


class Answers:
    def __init__(self):
        self.known = {}  # question -> (answer, times)
        self.differing = []

    def note(self, question, answer):
        """`question`: path and body, without fields that must not change the answer; `answer`: the tokens of each choice."""
        key = json.dumps(question, sort_keys=True)
        before, times = self.known.get(key, (answer, 0))
        self.known[key] = (before, times + 1)
        if before != answer:
            self.differing.append({"question": question, "one": before, "other": answer})

    def total(self):
        return sum(times for _, times in self.known.values())

    def sample(self, most, seed):
        """Returns questions spread over the run, with their answers."""
        keys = list(self.known)
        if len(keys) > most:
            keys = random.Random(seed).sample(keys, most)
        return [(json.loads(key), self.known[key][0]) for key in keys]


def tokens_of(choices):
    """Returns the tokens of the choices of an answer, whole or assembled from a stream."""
    return [choice["token_ids"] for choice in sorted(choices, key=lambda one: one["index"])]
