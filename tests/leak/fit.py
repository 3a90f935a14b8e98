#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Learns the weights of src/rule/leak_confidence.c: fit.py EVIDENCE [--c].

EVIDENCE is what `leakbench --set tuning --seeds 1-36 --rules RULES --evidence FILE` wrote, RULES being the shipped ones
without any min_confidence (`sed 's/min_confidence = [0-9.]*;//'`), which would hide what is to be learnt. A row is one growing verdict of one rule on
one program; it is a true one from half a window after the leak's start on. Verdicts of one program and rule hardly differ
from each other, so the first 60 of each kind count as one together. False ones count half as much again: an alarm for
nothing costs more than one that comes later. Prints the weights, what a threshold would mean, and with --c the table.
Needs numpy.
"""
import collections
import sys

import numpy as np

FIRST = 60
FALSE_WEIGHT = 1.5
RIDGE = 0.05


def read(path):
    names, rows, truth = [], collections.defaultdict(list), {}
    with open(path, encoding="ascii") as file:
        for line in file:
            word = line.split()
            if word[:2] == ["#", "x"]:
                names = word[8:]
            elif word[0] == "x":
                at, span = float(word[4]), float(word[5])
                rows[tuple(word[1:4])].append((at, span, np.array(word[7:], float)))
            elif word[0] == "t":
                truth[tuple(word[1:4])] = (word[4] == "1", float(word[5]), float(word[6]))
    return names, rows, truth


def samples(rows, truth):
    xs, ys, ws = [], [], []
    for key, list_ in rows.items():
        is_leak, start, _ = truth[key]
        by_span = collections.defaultdict(lambda: ([], []))
        for at, span, x in list_:
            if is_leak and start < at <= start + span / 2:
                continue
            by_span[span][is_leak and at > start].append(x)
        for false, true in by_span.values():
            for label, found in ((0, false[:FIRST]), (1, true[:FIRST])):
                xs += found
                ys += [label] * len(found)
                ws += [(1 if label else FALSE_WEIGHT) / max(len(found), 1)] * len(found)
    return np.array(xs), np.array(ys), np.array(ws)


def learn(x, y, w):
    b = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-x @ b))
        gradient = x.T @ (w * (y - p)) - RIDGE * b
        b += np.linalg.solve((x.T * (w * p * (1 - p))) @ x + RIDGE * np.eye(len(b)), gradient)
    return b


def main():
    names, rows, truth = read(sys.argv[1])
    x, y, w = samples(rows, truth)
    b = learn(x, y, w)
    p = 1 / (1 + np.exp(-x @ b))
    print(f"{len(truth)} programs, {len(y)} verdicts")
    for threshold in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95):
        true, false = w[(y == 1) & (p > threshold)].sum(), w[(y == 0) & (p > threshold)].sum()
        print(f"over {threshold}: {true / w[y == 1].sum():.2f} of the true verdicts, {false / w[y == 0].sum():.2f} of the false")
    for name, weight in zip(names, b):
        if "--c" in sys.argv:
            print(f'\t[LEAK_X_{name.upper()}] = {{ "{name}", {weight:.3f} }},')
        else:
            print(f"{name:10} {weight:6.3f}")


main()
