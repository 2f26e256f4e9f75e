"""Draws the loss and the recall of training, from the logs of its runs, as one CSV file and one SVG file.

    python3 tools/lab/train/plot_loss.py OUT_FOLDER LOG.csv...
"""

import csv
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 300, 46, 16, 46, 34
LOW, HIGH = 0.1, 8.0  # of the loss, on a logarithmic scale


def read(paths):
    """Rows of all runs, with the run's number first. Seconds go on from run to run."""
    return [{"run": run, **row} for run, path in enumerate(paths, 1) for row in csv.DictReader(open(path, newline=""))]


def line(points, colour):
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def draw(rows):
    last = max(float(row["tokens"]) for row in rows)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(row):
        return LEFT + inner_width * float(row["tokens"]) / last

    def loss_y(value):
        return TOP + inner_height * (1 - math.log(max(LOW, min(HIGH, float(value))) / LOW) / math.log(HIGH / LOW))

    def share_y(value):
        return TOP + inner_height * (1 - float(value))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for value in (0.1, 0.2, 0.5, 1, 2, 5):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{loss_y(value):.1f}" y2="{loss_y(value):.1f}" stroke="#dddddd"/>'
                   f'<text x="{LEFT - 6}" y="{loss_y(value) + 4:.1f}" text-anchor="end" fill="#1f5f99">{value}</text>')
    for value in (0, 0.5, 0.95, 1):
        out.append(f'<text x="{WIDTH - RIGHT + 6}" y="{share_y(value) + 4:.1f}" fill="#b3541e">{value:.0%}</text>')
    for millions in range(0, int(last / 1e6) + 1, 100):
        out.append(f'<text x="{LEFT + inner_width * millions * 1e6 / last:.1f}" y="{HEIGHT - 16}" text-anchor="middle">{millions}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 2}" text-anchor="middle">million tokens</text>')
    for first in [row for before, row in zip(rows, rows[1:]) if before["run"] != row["run"]]:
        out.append(f'<line x1="{x(first):.1f}" x2="{x(first):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#999999" stroke-dasharray="3 3"/>')
    out.append(line([(x(row), loss_y(row["reply_loss"])) for row in rows], "#1f5f99"))
    for column, colour in (("recall_2", "#d08a58"), ("recall_20", "#b3541e")):
        out.append(line([(x(row), share_y(row[column])) for row in rows if row[column]], colour))
    out.append(f'<text x="{LEFT + 160}" y="{TOP + 92}" fill="#1f5f99">loss of replies (left)</text>'
               f'<text x="{LEFT + 160}" y="{TOP + 108}" fill="#b3541e">recall after 20 turns, held out (right)</text>'
               f'<text x="{LEFT + 160}" y="{TOP + 124}" fill="#d08a58">recall after 2 turns, held out (right)</text></svg>')
    return "\n".join(out) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = read(sys.argv[2:])
    with open(folder / "loss.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "loss.svg").write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
