"""A fact that a user tells and asks for again.

A Fact knows how it is said by the user (`mine`), how the assistant says it back (`yours`), what it is called, how it
is asked for, and how to draw another value for it.
"""


class Fact:
    def __init__(self, key, mine, yours, noun, noun_back, asks, draw, says=(), short_fix=True):
        self.key = key
        self.mine = mine            # "my name is {v}"
        self.yours = yours          # "your name is {v}"
        self.noun = noun            # "my name"
        self.noun_back = noun_back  # "your name"
        self.asks = asks
        self.draw = draw
        self.says = says            # other ways to say it, whole sentences
        self.short_fix = short_fix  # "No, it is {v}." makes sense
        self.value = draw()
        self.old = None

    def change(self):
        self.old = self.value
        while self.value == self.old:
            self.value = self.draw()

    def fill(self, text):
        return text.replace("{v}", self.value)

    def back(self):
        """As the assistant says it."""
        return self.fill(self.yours)
