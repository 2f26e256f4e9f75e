"""Little stories with a hero, a friend, a place and a thing, told in parts that can be asked for one after the other."""

from words import a, capital

SIZES = "small big young old clever shy brave lazy happy lonely".split()
PLACES = ["near a river", "in a forest", "on a farm", "by the sea", "in a little house", "on a hill", "in a garden", "under a big tree",
          "in a village", "near a lake", "in a cave", "at the edge of a wood"]
TREASURES = "golden key,red ball,old map,silver bell,little boat,blue stone,magic seed,warm hat,shiny shell,tiny lamp".split(",")
HEROES = """dog cat horse pig sheep goat duck hen mouse rabbit fox bear wolf frog owl turtle bee monkey girl boy king queen farmer sailor
dragon giant robot wizard""".split()

WISHES = [
    ("wanted to see the world", "So {h} packed a small bag and began to walk.", "In the end {h} came home and told everybody about the journey."),
    ("wanted to find a friend", "So {h} went from door to door and said hello.", "From then on {h} was never alone again."),
    ("was looking for the {t}", "So {h} looked under every stone and behind every bush.", "At last they found the {t}, and it was beautiful."),
    ("wanted to learn to sing", "So {h} sang every morning and every evening.", "In the end even the birds came to listen to {h}."),
    ("was afraid of the dark", "So {h} lit a little light every night.", "After that night {h} was not afraid of the dark any more."),
    ("wanted to bake the biggest cake in the land", "So {h} took flour, eggs and a lot of sugar.", "Everybody got a piece of the cake and was happy."),
    ("had lost the {t}", "So {h} asked everybody about it.", "The {t} was found again, and {h} danced for joy."),
    ("wanted to cross the high mountain", "So {h} got up very early and climbed up the path.", "From the top {h} could see the whole land."),
    ("could not sleep", "So {h} counted the stars, one after the other.", "Before the last star was counted, {h} fell asleep."),
    ("wanted to build a boat", "So {h} gathered wood and strong rope.", "The boat was launched, and {h} sailed far over the water."),
]
MEETINGS = [
    "On the way {h} met {f}, {af}.", "Soon {h} met {af} called {f}.", "There {h} saw {af}. Its name was {f}.",
    "Then {af} named {f} came along.",
]
SPEECHES = [
    '"Can you help me?" asked {h}. "Of course," said {f}.', '"Where are you going?" asked {f}. "Come with me and see," said {h}.',
    '"I am hungry," said {f}. So {h} shared some bread.', '"Do not worry," said {f}. "I will stay with you."',
    '"It is a long way," said {f}. "Then let us go together," said {h}.',
]
TROUBLES = [
    "Suddenly it began to rain, and they hid under a tree.", "Then they came to a deep river without a bridge.",
    "A strong wind blew, and they had to hold each other.", "They lost their way and it grew dark.",
    "A big stone lay on the path.", "They heard a strange sound in the bushes.",
]
HELPS = [
    "{f} had a good idea, and soon all was well again.", "{h} was brave and showed the way.", "Together they were strong enough.",
    "A kind old owl told them what to do.", "They waited a little, and then they went on.", "It was only a little bird, and they laughed.",
]
ENDS = ["And they lived happily ever after.", "The end.", "That was the best day of all.", "And if you go there, you can still see them."]


class Story:
    def __init__(self, w, hero=None):
        r = w.r
        self.kind = hero or r.choice(HEROES)
        self.name = w("name") if r.random() < 0.7 else w("pet_name")
        self.friend_kind = r.choice([kind for kind in HEROES if kind != self.kind])
        self.friend = w("name")
        while self.friend == self.name:
            self.friend = w("name")
        self.place = r.choice(PLACES)
        self.treasure = r.choice(TREASURES)
        size = r.choice(SIZES)
        wish, deed, end = r.choice(WISHES)
        start = r.choice(["Once upon a time there was {x} {k} named {h}.", "There once was {x} {k} called {h}.", "Once there was {x} {k} named {h}."])
        start = start.replace("{x}", a(size)).replace("{k}", self.kind)
        self.parts = [
            [start, "{h} lived " + self.place + "."],
            ["One day {h} " + wish + "." if "was " not in wish and "could" not in wish and "had" not in wish else "{h} " + wish + ".", deed],
            [r.choice(MEETINGS), r.choice(SPEECHES)],
            [r.choice(TROUBLES), r.choice(HELPS)],
            [end, r.choice(ENDS)],
        ]

    def text(self, begin, end):
        out = " ".join(sentence for part in self.parts[begin:end] for sentence in part)
        return (out.replace("{h}", self.name).replace("{f}", self.friend).replace("{af}", a(self.friend_kind)).replace("{t}", self.treasure))


GO_ON = ["Go on.", "What happened next?", "And then?", "Continue.", "Tell me more.", "What happened then?", "Continue the story.", "Please go on."]
TELL = ["Tell me a story about {x}.", "Can you tell me a story about {x}?", "Please tell a story about {x}.", "I want a story about {x}.",
        "Write a little story about {x}."]
TELL_ANY = ["Tell me a story.", "Can you tell me a story?", "I want to hear a story.", "Tell me a little story.", "Another story, please."]
CARRY_ON = ["Continue this story: {s}", "Please go on with this story: {s}", "Here is the start of a story. {s} Go on, please.",
            "Finish this story: {s}", "{s} What happened next?"]


def story_turns(w, most):
    """A story in one or several turns: (user, reply, thought, value, wrong) with value None but where something is asked back."""
    r = w.r
    story = Story(w)
    turns = []
    given = 0
    if r.random() < 0.35:
        given = r.choice([1, 1, 2])
        question = r.choice(CARRY_ON).replace("{s}", story.text(0, given))
    elif r.random() < 0.7:
        question = r.choice(TELL).replace("{x}", a(story.kind))
    else:
        question = r.choice(TELL_ANY)
    thought = f"The hero is {a(story.kind)} named {story.name}."
    if most == 1 or r.random() < 0.4:
        turns.append((question, story.text(given, 5), thought, None, ()))
        told = 5
    else:
        step = r.choice([1, 2])
        told = given
        while told < 5 and len(turns) < most:
            turns.append((question, story.text(told, told + step), thought, None, ()))
            told += step
            question = r.choice(GO_ON)
    if len(turns) < most and r.random() < 0.6:
        asks = [(r.choice([f"What was the name of the {story.kind}?", f"What was the {story.kind} called?",
                           "Who was the story about?" if told >= 1 else f"What was the {story.kind} called?"]),
                 f"The {story.kind} was called {story.name}.", story.name, (story.friend,) if told >= 3 else ()),
                (f"Where did {story.name} live?", f"{story.name} lived {story.place}.", story.place, ())]
        if told >= 3:
            asks.append((f"Who did {story.name} meet?", f"{story.name} met {story.friend}, {a(story.friend_kind)}.", story.friend, ()))
        question, reply, value, wrong = r.choice(asks)
        turns.append((question, reply, f"The story was about {story.name}, {a(story.kind)}. " + reply, value, wrong))
    return turns[:most]
