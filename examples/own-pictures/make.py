"""Makes the pictures of this folder, with Pillow: bright discs, squares and stripes on dark ground, JPEG and PNG in turn."""

import random
from pathlib import Path

from PIL import Image, ImageDraw

FOLDER = Path(__file__).parent
COUNTS = {"train": 24, "test": 8}


def picture(draws, shape):
    width, height = draws.choice([(28, 22), (22, 26), (30, 30)])
    image = Image.new("RGB", (width, height), tuple(draws.randrange(60) for _ in range(3)))
    pen = ImageDraw.Draw(image)
    colour = tuple(draws.randrange(150, 256) for _ in range(3))
    size = draws.randrange(10, 15)
    left, top = draws.randrange(width - size), draws.randrange(height - size)
    box = (left, top, left + size, top + size)
    if shape == "disc":
        pen.ellipse(box, fill=colour)
    elif shape == "square":
        pen.rectangle(box, fill=colour)
    else:
        for row in range(top, top + size, 4):
            pen.line((left, row, left + size, row), fill=colour, width=2)
    return image


for split, count in COUNTS.items():
    for shape in ["disc", "square", "stripes"]:
        draws = random.Random(f"{split} {shape}")
        folder = FOLDER / split / shape
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            image = picture(draws, shape)
            if number % 2:
                image.save(folder / f"{number:02}.png", optimize=True)
            else:
                image.save(folder / f"{number:02}.jpg", quality=90, optimize=True)
