"""Small lists that the user dictates, changes and asks for."""

from words import capital

NOUNS = [("shopping list", "goods"), ("list", "goods"), ("packing list", "small_thing"), ("list of friends", "name"), ("list of animals", "animal"),
         ("list of words", "secret"), ("list of towns", "town"), ("list of colours", "colour")]
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth"]


def joined(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


class ListFact:
    """Told in one message. `turn` gives (user, reply, thought, value, wrong); value is what the reply must hold."""

    def __init__(self, w):
        self.w = w
        self.noun, self.kind = w.r.choice(NOUNS)
        self.key = self.noun
        self.items = w.several(self.kind, w.r.randint(2, 5))
        self.gone = []

    def all(self):
        return f"Your {self.noun} is: {joined(self.items)}."

    def tell(self):
        r = self.w.r
        text = r.choice(["My {n} is: {l}.", "Here is my {n}: {l}.", "Please remember my {n}: {l}.", "On my {n} are {l}.", "My {n} has {l} on it."])
        reply = r.choice([self.all(), "Okay, I will remember your " + self.noun + ".", f"Okay. There are {len(self.items)} things on your {self.noun}."])
        return text.replace("{n}", self.noun).replace("{l}", joined(self.items)), reply, "I must remember the list.", None, ()

    def change(self):
        r = self.w.r
        if len(self.items) < 6 and (r.random() < 0.6 or len(self.items) < 3):
            item = self.w(self.kind)
            if item in self.items or item in self.gone:
                return self.ask()
            self.items.append(item)
            text = r.choice(["Add {x} to my {n}.", "Please add {x} to the {n}.", "Put {x} on my {n}."])
        else:
            item = self.items.pop(r.randrange(len(self.items)))
            self.gone.append(item)
            text = r.choice(["Remove {x} from my {n}.", "Take {x} off my {n}.", "Delete {x} from the {n}."])
        return (text.replace("{x}", item).replace("{n}", self.noun), f"Okay. {self.all()}", f"The list changes. {self.all()}", joined(self.items), tuple(self.gone))

    def ask(self):
        r = self.w.r
        kind = r.random()
        if kind < 0.5:
            question = r.choice(["What is on my {n}?", "Tell me my {n}.", "What was on my {n}?", "Can you repeat my {n}?", "Read me my {n}."])
            return question.replace("{n}", self.noun), self.all(), self.all(), joined(self.items), tuple(self.gone)
        if kind < 0.8:
            i = r.randrange(len(self.items))
            which = "last" if i == len(self.items) - 1 and r.random() < 0.5 else ORDINALS[i]
            others = tuple(item for item in self.items if item != self.items[i])
            return (f"What is the {which} thing on my {self.noun}?", f"The {which} thing on your {self.noun} is {self.items[i]}.", self.all(),
                    self.items[i], others)
        if kind < 0.9:
            return (f"How many things are on my {self.noun}?", f"There are {len(self.items)} things on your {self.noun}." if len(self.items) != 1
                    else f"There is 1 thing on your {self.noun}.", self.all(), str(len(self.items)), ())
        item = r.choice(self.items) if r.random() < 0.5 else self.w(self.kind)
        there = item in self.items
        reply = f"Yes, {item} is on your {self.noun}." if there else f"No, {item} is not on your {self.noun}."
        return f"Is {item} on my {self.noun}?", reply, self.all(), "Yes" if there else "No", ()

    def unknown(self):
        return f"What is on my {self.noun}?", f"You have not told me your {self.noun}.", "There is no such list in our talk.", "not told me", ()
