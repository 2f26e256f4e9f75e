"""The words that dialogues are about. Every kind has words for training and others, never trained on, for evaluation."""

import random


def _pair(text):
    train, held_out = text.split("|")
    return tuple(train.split(",")), tuple(held_out.split(","))


def _lists(**kinds):
    return {kind: _pair(" ".join(text.split()).replace(", ", ",").replace(" | ", "|")) for kind, text in kinds.items()}


LISTS = _lists(
    name="""Anna, Tom, Ben, Lily, Max, Sara, Tim, Lucy, Jack, Mia, Sam, Emma, Leo, Nora, Paul, Ella, Finn, Ruth, Carl, Zoe,
        Adam, Clara, David, Eva, Fred, Grace, Hugo, Ida, Jonas, Kate, Lars, Mary, Nick, Olga, Peter, Rosa, Simon, Tina,
        Victor, Wendy, Oscar, Julia, Karl, Laura, Martin, Nina, Otto, Paula, Robert, Sophie, Thomas, Vera, William, Alice,
        Bruno, Cora, Daniel, Elsa, Felix, Greta, Henry, Irene, John, Klara, Linda, Mark, Nelly, Oliver, Polly, Ralph, Susan,
        Theo, Ursula, Walter, Amy, Bob, Cathy, Dan, Erik, Fiona, George, Hanna, Ivan, Jane, Kevin, Lena, Mike, Naomi, Pablo,
        Rita, Steve, Tara, Vince, Yara, Ali, Bella, Chloe, Diego, Emil, Farah, Gina, Hassan, Jim, Joe, Ken, Lea, Maria, Noah,
        Omar, Petra, Rosie, Sally, Toby, Uma, Violet, Will, Xenia, Yusuf, Zack, Andrew, Betty, Claire, Doris, Edward, Frank
        | Marcus, Ingrid, Philip, Esther, Hector, Mabel, Gustav, Selma, Ronald, Bianca, Dennis, Flora, Stefan, Agnes, Igor,
        Miriam, Louis, Tamara, Edgar, Helga, Quentin, Priya, Boris, Wanda, Jasper, Iris, Conrad, Thea, Elias, Monica""",
    pet_name="""Rex, Bello, Luna, Milo, Spot, Fluffy, Coco, Buddy, Daisy, Rocky, Simba, Nala, Pip, Ginger, Shadow, Snowy, Biscuit,
        Pepper, Tiger, Bandit, Cookie, Honey, Lucky, Misty, Oreo, Patch, Smokey, Toto, Waffle, Ziggy, Bean, Button, Dusty
        | Noodle, Pickle, Sparky, Muffin, Whiskers, Bruno, Jelly, Socks, Tango, Widget""",
    town="""Rome, Paris, London, Berlin, Madrid, Oslo, Vienna, Lisbon, Prague, Dublin, Athens, Cairo, Tokyo, Boston, Chicago,
        Dallas, Bern, Milan, Naples, Porto, Bristol, Leeds, York, Oxford, Hamburg, Munich, Cologne, Lyon, Nice, Seville, Turin,
        Denver, Austin, Miami, Seattle, Moscow, Delhi, Lima, Quito, Nairobi, Lagos, Sydney, Perth, Seoul, Beijing, Warsaw
        | Helsinki, Geneva, Toronto, Glasgow, Zurich, Havana, Manila, Krakow, Bergen, Phoenix, Valencia, Dresden""",
    country="""Italy, France, England, Germany, Spain, Norway, Austria, Portugal, Ireland, Greece, Egypt, Japan, Canada, Mexico,
        India, Peru, Kenya, China, Poland, Sweden, Turkey, Brazil, Chile, Cuba | Denmark, Finland, Morocco, Iceland, Vietnam""",
    colour="""red, blue, green, yellow, black, white, brown, orange, pink, purple, grey, gold, silver, dark blue, light green,
        violet, cream | teal, maroon, beige, ivory, turquoise""",
    food="""pizza, soup, rice, bread, cheese, pasta, fish, cake, salad, beans, potatoes, pancakes, noodles, chicken, eggs,
        porridge, stew, sausages, ice cream, honey, chocolate, pie, toast, cookies | dumplings, lasagna, tofu, waffles, curry""",
    fruit="apples, pears, plums, cherries, grapes, bananas, lemons, oranges, berries, melons, figs | peaches, mangoes, kiwis, dates",
    drink="tea, coffee, milk, water, juice, cocoa, lemonade, apple juice | cider, mint tea, soda",
    animal="""dog, cat, horse, cow, pig, sheep, goat, duck, hen, mouse, rabbit, fox, bear, wolf, lion, tiger, frog, bird, fish,
        owl, snake, turtle, bee, deer, elephant, monkey, whale, crow | otter, badger, penguin, parrot, camel, donkey""",
    pet="dog, cat, rabbit, hamster, bird, horse, fish, turtle, mouse, goat | parrot, pony, lizard, ferret",
    sport="""football, tennis, chess, swimming, running, skiing, dancing, cycling, rowing, cards, hockey, hiking
        | golf, boxing, volleyball, judo""",
    season="spring, summer, autumn, winter | spring, summer, autumn, winter",
    day="Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday | Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    month="""January, February, March, April, May, June, July, August, September, October, November, December
        | January, February, March, April, May, June, July, August, September, October, November, December""",
    thing="""car, bike, hat, coat, house, door, bag, boat, ball, book, cup, chair, lamp, shirt, kite, scarf, umbrella, phone, pen, box,
        bed, jacket, table, watch, ring, pencil, backpack, blanket, drum, basket, bottle, bowl, spoon, clock, vase, ladder, bucket
        | wallet, sofa, helmet, piano, sweater, carpet, violin, tent, kettle, mirror""",
    small_thing="""key, letter, coin, ring, pen, book, phone, map, ticket, glove, hat, spoon, candle, stamp, photo, watch, toy, cup,
        ball, knife, card, apple, shoe, sock, notebook, bell | necklace, whistle, battery, hammer, magnet, passport""",
    spot="""in the drawer, under the bed, on the table, behind the door, in the kitchen, in the garden, on the shelf, in the bag,
        under the chair, in the box, next to the lamp, in the car, on the roof, behind the sofa, in the cupboard, in the basket,
        under the tree, in the garage, on the desk, in the bathroom, in the blue box, near the window, at school
        | under the carpet, in the cellar, on the piano, behind the mirror, in the fridge, in the attic, on the balcony""",
    job="""baker, teacher, doctor, farmer, nurse, driver, cook, painter, singer, writer, gardener, pilot, sailor, tailor, builder,
        dentist, postman, fisherman, librarian, carpenter, shepherd, miner, waiter, clown
        | plumber, judge, barber, soldier, engineer, florist, lawyer""",
    relative="""sister, brother, mother, father, friend, best friend, teacher, neighbour, uncle, aunt, cousin, son, daughter,
        grandmother, grandfather, boss | niece, nephew, doctor, roommate""",
    visit="dentist, doctor, barber, teacher, bank, museum, zoo, market, library, school, cinema, park | lawyer, theatre, church, gym",
    goods="""milk, bread, eggs, butter, cheese, apples, rice, sugar, salt, tea, coffee, soap, flour, honey, carrots, onions, potatoes,
        bananas, paper, candles, fish, oil, beans, pasta, tomatoes, nuts, jam, juice, water, matches
        | yogurt, garlic, pepper, mustard, spinach, raisins, vinegar, ginger, cucumbers, olives""",
    countable="""apples, books, coins, eggs, cups, pens, balls, stones, shells, cards, cookies, flowers, hats, keys, stamps, toys, plums,
        pears, candles, buttons, fish, cats, boxes, stickers | marbles, ribbons, bricks, spoons, bottles, acorns""",
    secret="""apple, river, moon, stone, garden, window, thunder, button, castle, forest, silver, winter, pepper, ladder, engine,
        feather, lantern, marble, ocean, pirate, rocket, spider, tunnel, violin, wizard, bridge, candle, dragon, island
        | harbour, blossom, anchor, velvet, puzzle, meadow, comet, saddle, walnut, compass""",
)

_STARTS = "b bl br c cl d dr f fl fr g gl gr h j k kl l m n p pl pr r s sh sl st t th tr v w z".split()
_MIDDLES = "a e i o u ai ea ee oo ou".split()
_ENDS = "b d ck l ll m n nd ng nk r rn s st t x y lo ra na mo ta ri".split()


_WHOLE = sorted({word.lower() for train, _ in LISTS.values() for word in train if word.isalpha() and len(word) > 3})
_HELD_OUT = {word.lower() for _, held_out in LISTS.values() for phrase in held_out for word in phrase.split()}


def _made_up(r):
    if r.random() < 0.5:  # the front of one word and the back of another
        front, back = r.choice(_WHOLE), r.choice(_WHOLE)
        return front[: r.randint(2, len(front) - 1)] + back[-r.randint(2, len(back) - 1) :]
    word = r.choice(_STARTS) + r.choice(_MIDDLES) + r.choice(_ENDS)
    if r.random() < 0.4:
        word += r.choice(_MIDDLES) + r.choice(_ENDS)
    return word


def invented(r):
    """A word that nobody has heard: it can only be copied."""
    while True:
        word = _made_up(r)
        if word not in _HELD_OUT and len(word) < 12:
            return word


class Words:
    """Draws words of a kind: from the training lists, or from the held-out ones."""

    CAPITAL = ("name", "pet_name", "town", "country")
    CLOSED = ("season", "day", "month")  # nobody makes up a Monday
    INVENTED_SHARE = 0.25

    def __init__(self, r: random.Random, held_out=False, small_letters=False, invents=True):
        self.r = r
        self.side = 1 if held_out else 0
        self.invents = invents and not held_out
        self.small_letters = small_letters  # the user writes names so

    def __call__(self, kind):
        if self.invents and kind not in self.CLOSED and self.r.random() < self.INVENTED_SHARE:
            word = invented(self.r)
            if kind == "spot":
                word = self.r.choice(("in the ", "under the ", "on the ", "behind the ", "near the ")) + word
            word = capital(word) if kind in self.CAPITAL else word
        else:
            word = self.known(kind)
        return word.lower() if self.small_letters and kind in self.CAPITAL else word

    def known(self, kind):
        """A word that means something."""
        return self.r.choice(LISTS[kind][self.side])

    def several(self, kind, count):
        found = []
        while len(found) < count:
            word = self(kind)
            if word not in found:
                found.append(word)
        return found

    def number(self, low, high):
        return str(self.r.randint(low, high))


NUMBER_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty""".split()


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def capital(text):
    return text[:1].upper() + text[1:]
