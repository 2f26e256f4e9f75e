"""Dialogues: facts are told, left alone, asked for and corrected, between sums, counting, stories and small talk.

`Dialogue` is a list of messages and, for every assistant message, what a check may ask of it.
"""

import random

import facts
import lists
import numbers_talk
import small_talk
import stories
from words import Words, capital

SYSTEMS = ["You are a helpful assistant.", "You are a friendly helper.", "Answer in short and simple words.", "You are a kind assistant. Be brief.",
           "You are Reprise, a very small model.", "Talk to the user in simple English.", "You are a helpful assistant. Remember what the user tells you."]
TOOL_NAMES = ["get_weather", "search", "get_time", "calculator", "send_mail", "open_door", "play_music"]


class Turn:
    __slots__ = ("user", "reply", "thought", "value", "wrong", "skill", "age", "corrected")

    def __init__(self, user, reply, thought, value=None, wrong=(), skill="talk", age=0):
        self.user, self.reply, self.thought, self.value = user, reply, thought, value
        self.wrong = wrong  # values that must not be in the reply
        self.skill = skill
        self.age = age      # turns since the asked value was told
        self.corrected = False  # the asked value is not the first that was told


class Dialogue:
    def __init__(self, system, turns, thinking):
        self.system, self.turns, self.thinking = system, turns, thinking

    def messages(self):
        out = [{"role": "system", "content": self.system}] if self.system else []
        for turn in self.turns:
            out.append({"role": "user", "content": turn.user})
            out.append({"role": "assistant", "content": turn.reply})
        return out


class Writer:
    """Writes one dialogue of `length` turns."""

    def __init__(self, r, length, held_out=False):
        self.r = r
        self.casual = r.random() < 0.25
        self.small_letters = self.casual and r.random() < 0.5
        self.w = Words(r, held_out, self.small_letters)
        self.plain = Words(r, held_out)
        self.own = Words(r, held_out, invents=False)  # for what the assistant thinks up
        self.length = length
        self.facts = []      # told so far
        self.told_at = {}    # by key: the turn in which the present value was told
        self.lists = []
        self.taken = set()
        self.turns = []
        self.last_fact = None
        self.us = r.random() < 0.4
        self.chatty = r.choice([0.1, 0.3, 0.5])

    # Each of these adds one or more turns.

    def tell(self):
        r = self.r
        if len(self.lists) < 2 and r.random() < 0.08:
            one = lists.ListFact(self.w)
            if one.key not in self.taken:
                self.taken.add(one.key)
                self.lists.append(one)
                self.told_at[one.key] = len(self.turns)
                return self.add(*one.tell(), skill="tell")
        count = r.choices((1, 2, 3, 4), (76, 14, 7, 3))[0]
        if count > 1:
            return self.tell_several(count)
        fact = facts.draw_fact(self.w, self.taken)
        user, reply, thought = facts.say(fact, r), facts.said(fact, r), f"The user says: {fact.fill(fact.mine)}. I should remember it."
        self.keep(fact)
        if r.random() < 0.1:  # a fact and a question
            other, result, other_thought = self.aside()
            user, reply, thought = user + " " + other, reply + " " + result, thought + " " + other_thought
        self.add(user, reply, thought, skill="tell")

    def tell_several(self, count):
        r = self.r
        found = []
        for _ in range(count):
            found.append(facts.draw_fact(self.w, self.taken))
            self.keep(found[-1])
        clauses = [fact.fill(fact.mine) for fact in found]
        backs = [fact.back() for fact in found]
        if count == 2 and r.random() < 0.7:
            user = capital(clauses[0]) + " and " + clauses[1] + "."
        elif r.random() < 0.3:
            user = capital(lists.joined(clauses)) + "."
        elif r.random() < 0.4:
            user = facts.say(found[0], r) + " " + capital(lists.joined(clauses[1:])) + "."
        else:
            user = " ".join(facts.say(fact, r) if i == 0 else capital(fact.fill(fact.mine)) + "." for i, fact in enumerate(found))
        reply = r.choice(["Okay, {x}.", "I will remember that {x}.", "Okay, I will remember all of that."]).replace("{x}", lists.joined(backs))
        self.add(user, reply, f"The user tells me {count} things. I should remember them.", skill="tell")

    def keep(self, fact):
        self.taken.add(fact.key)
        self.facts.append(fact)
        self.told_at[fact.key] = len(self.turns)
        self.last_fact = fact

    def wrong_for(self, fact):
        """Values of other facts, and the old one: none may be in the answer."""
        text = fact.back().lower()
        wrong = {other.value for other in self.facts if other is not fact and other.value.lower() not in text}
        if fact.old and fact.old.lower() not in text:
            wrong.add(fact.old)
        return tuple(sorted(wrong))

    def ask(self):
        r = self.r
        if self.lists and r.random() < 0.25:
            one = r.choice(self.lists)
            age = len(self.turns) - self.told_at[one.key]
            if r.random() < 0.3:
                self.told_at[one.key] = len(self.turns)
                return self.add(*one.change(), skill="list", age=age)
            return self.add(*one.ask(), skill="list", age=age)
        if not self.facts:
            return self.unknown()
        if len(self.facts) > 1 and r.random() < 0.1:
            return self.ask_two()
        fact = r.choice(self.facts)
        if r.random() < 0.08:
            return self.check(fact)
        user, polite = facts.ask(fact, r)
        thought = f"The user said: {fact.fill(fact.mine)}."
        if fact.old:
            thought = f"First it was {fact.old}, then it was {fact.value}. The last one counts."
        self.add(user, facts.answer(fact, r, polite), thought, fact.value, self.wrong_for(fact), skill="recall",
                 age=len(self.turns) - self.told_at[fact.key])
        self.turns[-1].corrected = fact.old is not None

    def check(self, fact):
        """Is it so? Yes, or no and what it is."""
        r = self.r
        actual, said = fact.value, fact.value
        if r.random() < 0.5:
            while said == actual:
                said = fact.old if fact.old and r.random() < 0.3 else fact.draw()
        clause = fact.mine.replace("{v}", said)
        if clause.startswith(("my ", "the ")) and fact.mine.endswith(" is {v}") and r.random() < 0.7:
            question = "Is " + clause.replace(" is " + said, " " + said) + "?"
        elif clause.startswith("I am "):
            question = "Am I " + clause[5:] + "?"
        elif clause.startswith("I ") and " put " not in clause and "parked" not in clause and r.random() < 0.7:
            question = "Do " + clause + "?"
        else:
            question = r.choice(["Is it true that {c}?", "Is it right that {c}?"]).replace("{c}", clause)
        yes = "Yes" if said == actual else "No"
        self.add(question, f"{yes}, {fact.back()}.", f"The user said: {fact.fill(fact.mine)}.", (yes, actual), (), skill="check",
                 age=len(self.turns) - self.told_at[fact.key])

    def ask_two(self):
        first, second = self.r.sample(self.facts, 2)
        question = first.asks[0][:-1] + " and " + second.asks[0][0].lower() + second.asks[0][1:]
        if question[:4] == "Tell" or " tell me" in question:
            question = f"Do you remember {first.noun} and {second.noun}?"
        if " I " in second.asks[0][:2]:
            question = f"Tell me {first.noun} and {second.noun}."
        reply = capital(first.back()) + " and " + second.back() + "."
        age = len(self.turns) - min(self.told_at[first.key], self.told_at[second.key])
        self.add(question, reply, f"The user asks for two things. One is {first.value}, the other is {second.value}.", (first.value, second.value), (), skill="recall two", age=age)

    def summary(self):
        known = self.facts[-4:] if len(self.facts) <= 4 else None
        if not known:
            return self.ask()
        question = self.r.choice(["What do you know about me?", "What did I tell you?", "Tell me everything that I told you.", "What have I told you so far?"])
        reply = capital(lists.joined([fact.back() for fact in known])) + "."
        self.add(question, reply, "I say what I was told.", tuple(fact.value for fact in known), (), skill="summary")

    def unknown(self):
        if self.r.random() < 0.1:
            one = lists.ListFact(self.w)
            if one.key not in self.taken:
                return self.add(*one.unknown(), skill="unknown")
        fact = facts.draw_fact(self.w, self.taken)
        if fact.key == "your name":
            return self.add(self.r.choice(small_talk.NAME_ASKS), small_talk.NAME_REPLY, "My name is Reprise.", "Reprise", (), skill="talk")
        user, _ = facts.ask(fact, self.r)
        self.add(user, facts.UNKNOWN_ANSWER.replace("{n}", fact.noun_back), "I look for it in our talk. The user did not say that.", "not told me", (), skill="unknown")

    def correct(self):
        if not self.facts:
            return self.tell()
        just_said = self.last_fact is not None and self.told_at[self.last_fact.key] == len(self.turns) - 1 and self.turns[-1].skill in ("tell", "correct")
        fact = self.last_fact if just_said and self.r.random() < 0.7 else self.r.choice(self.facts)
        if fact.key.startswith("count ") and self.r.random() < 0.7:
            return self.count_change(fact)
        is_last = just_said and fact is self.last_fact and " and " not in self.turns[-1].user
        fact.change()
        user, reply = facts.fix(fact, self.r, is_last), facts.fixed(fact, self.r)
        self.told_at[fact.key] = len(self.turns)
        self.last_fact = fact
        self.add(user, reply, f"It was {fact.old}, now it is {fact.value}.", skill="correct")

    def count_change(self, fact):
        things, had = fact.key[6:], int(fact.value)
        n = self.r.randint(1, 12)
        if self.r.random() < 0.5 and had > 1:
            n = self.r.randint(1, had - 1)
            user, now = self.r.choice([f"I lost {n} {things}.", f"I gave away {n} {things}.", f"I sold {n} {things}."]), had - n
            thought = f"{had} - {n} = {now}."
        else:
            user, now = self.r.choice([f"I got {n} more {things}.", f"I found {n} {things}.", f"I bought {n} more {things}."]), had + n
            thought = f"{had} + {n} = {now}."
        fact.old, fact.value = fact.value, str(now)
        self.told_at[fact.key] = len(self.turns)
        self.add(user, f"{thought} Then you have {now} {things} now.", thought, fact.value, skill="count")

    def aside(self):
        return numbers_talk.talk(self.plain) if self.r.random() < 0.5 else small_talk.talk(self.plain)

    def distract(self):
        room = self.length - len(self.turns)
        if self.r.random() < 0.12:
            for turn in stories.story_turns(self.own, min(room, 5)):
                self.add(*turn, skill="story")
            return
        user, reply, thought = self.aside()
        if self.r.random() < 0.03:
            user, reply, thought = self.r.choice(small_talk.NAME_ASKS), self.own_name(), "The user asks for my name."
        if "{" not in reply:
            self.add(user, reply, thought)

    def own_name(self):
        for fact in self.facts:
            if fact.key == "your name":
                return capital(fact.back()) + "."
        return small_talk.NAME_REPLY

    def add(self, user, reply, thought, value=None, wrong=(), skill="talk", age=0):
        if self.us:
            user, reply, thought = (text.replace("colour", "color").replace("avourite", "avorite").replace("neighbour", "neighbor")
                                    for text in (user, reply, thought))
            if isinstance(value, str):
                value = value.replace("colour", "color").replace("neighbour", "neighbor")
        self.turns.append(Turn(self.style(user) if skill != "story" else user, reply, thought, value, wrong, skill, age))

    def style(self, text):
        r = self.r
        if not self.casual or r.random() < 0.3:
            return text
        if self.small_letters and r.random() < 0.6:
            text = text.lower()
            if r.random() < 0.3:
                text = text.replace("'", "")
        if r.random() < 0.6 and text.endswith((".", "?")):
            text = text[:-1]
        if r.random() < 0.5 and ":" not in text:
            text = text[0].lower() + text[1:]
        return text

    def system(self):
        """A system message, which may tell a fact of its own."""
        r = self.r
        if r.random() < 0.6:
            return None
        text = r.choice(SYSTEMS)
        x = r.random()
        if x < 0.2:
            fact = facts._your_name(self.w)
            self.keep(fact)
            text = f"You are {fact.value}, a friendly helper." if r.random() < 0.5 else f"Your name is {fact.value}. " + text
        elif x < 0.4:
            fact = facts.draw_fact(self.w, self.taken | {"your name"})
            if fact.yours.startswith("you") or fact.mine == fact.yours:
                clause = fact.fill(fact.mine)
                clause = clause.replace("I am ", "the user is ").replace("my ", "the user's ").replace("I live", "the user lives")
                if " I " not in " " + clause:
                    self.keep(fact)
                    text += " " + capital(clause) + "."
        if r.random() < 0.05:
            names = r.sample(TOOL_NAMES, r.randint(1, 3))
            text += "\n\nTools:" + "".join('\n{"name": "%s"}' % name for name in names)
        return text

    def write(self):
        r = self.r
        system = self.system()
        tell_more = r.choice([0.15, 0.25, 0.4])
        while len(self.turns) < self.length:
            x = r.random()
            if len(self.turns) == self.length - 1 and self.facts and r.random() < 0.5:
                self.ask()
            elif len(self.facts) + len(self.lists) == 0 and x < 0.6 or x < tell_more:
                self.tell()
            elif x < tell_more + 0.08:
                self.correct()
            elif x < tell_more + 0.08 + self.chatty:
                self.distract()
            elif x < tell_more + 0.12 + self.chatty:
                self.unknown()
            elif x > 0.985:
                self.summary()
            else:
                self.ask()
        return Dialogue(system, self.turns[: self.length], r.random() < 0.12)


def write_dialogue(r: random.Random, length, held_out=False):
    return Writer(r, length, held_out).write()
