"""Writes train.csv and test.csv of this folder: short notes about the weather, sport and the market.

    python make.py

Your own texts go the same way: a line for each, the label first, then the text, in quotes where it has commas, quotes or
line breaks of its own.
"""

import csv
import random

TOPICS = {
    "weather": ["rain", "a cold wind", "fog over the \"old\" harbour", "sun, at last", "snow"],
    "sport": ["the final whistle", "a late goal", "two sets to one", "the home team", "a record, by far"],
    "market": ["share prices", "a weak currency", "the quarter's profit", "lower rates", "bonds, and gold"],
}
BEGINNINGS = ["This morning", "As expected,", "Nobody spoke of", "Reports mention", "In the north"]
ENDINGS = ["again", "for the third day", "and nothing else", "said the paper", "until evening"]


def note(draw, topic):
    middle = " and ".join(draw.sample(TOPICS[topic], draw.choice([1, 2])))
    return f"{draw.choice(BEGINNINGS)} {middle} {draw.choice(ENDINGS)}."


for name, texts, seed in [("train", 600, 1), ("test", 150, 2)]:
    draw = random.Random(seed)
    with open(f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["topic", "text"])
        for number in range(texts):
            topic = list(TOPICS)[number % len(TOPICS)]
            rows.writerow([topic, note(draw, topic)])
