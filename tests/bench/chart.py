# SPDX-License-Identifier: MIT
"""Charts of the bench as SVG that needs nothing else: readable on light and dark, logarithmic axes with units. Pure."""
import math
from xml.sax.saxutils import escape, quoteattr

STYLE = ("text{font:12px system-ui,sans-serif;fill:#1f2328}.h{font-weight:600;font-size:14px}.e{text-anchor:end}"
         ".m{text-anchor:middle}.d{fill:#57606a}.b{fill:#fff}.g{stroke:#d8dee4}.w{stroke:#1f2328}.x{fill:#cf222e}"
         ".c0,.c1,.c2,.c3{fill-opacity:1}.c0{fill:#0550ae}.c1{fill:#8250df}.c2{fill:#bc4c00}.c3{fill:#6e7781}"
         ".l{fill:none;stroke-width:2}.s0{stroke:#0550ae}.s1{stroke:#8250df}.s2{stroke:#bc4c00}.s3{stroke:#6e7781}"
         ".o{fill:none;stroke:#cf222e;stroke-width:2}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117}.d{fill:#8d96a0}.g{stroke:#30363d}"
         ".w{stroke:#e6edf3}.x{fill:#ff7b72}.c0{fill:#58a6ff}.c1{fill:#bc8cff}.c2{fill:#f0883e}.c3{fill:#8d96a0}"
         ".s0{stroke:#58a6ff}.s1{stroke:#bc8cff}.s2{stroke:#f0883e}.s3{stroke:#8d96a0}.o{stroke:#ff7b72}}")


class Axis:
    """Whole decades around the values, from pixel `begin` to pixel `end`. A value of zero lies at the lower end."""

    def __init__(self, values, begin, end):
        positive = [v for v in values if v > 0]
        self.low = math.floor(math.log10(min(positive)) + 1e-9) if positive else 0
        self.high = math.ceil(math.log10(max(positive)) - 1e-9) if positive else 1
        self.high = max(self.high, self.low + 1)
        self.begin, self.end = begin, end

    def place(self, value):
        if value <= 0:
            return self.begin
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self):
        if self.high - self.low == 1:
            return [10.0 ** self.low * n for n in (1, 2, 5, 10)]
        step = max(1, (self.high - self.low) // 5)
        return [10.0 ** e for e in range(self.low, self.high + 1, step)]

    def data(self):
        return f'data-scale="log" data-min="{10.0 ** self.low:g}" data-max="{10.0 ** self.high:g}"'


def short(value):
    """1, 10, 1k, 1M, 0.01."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def text(x, y, what, style=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class={quoteattr(style)}>{escape(what)}</text>' if style else \
        f'<text x="{x:.1f}" y="{y:.1f}">{escape(what)}</text>'


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def document(width, height, title, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", '<rect width="100%" height="100%" class="b"/>',
        text(12, 24, title, "h"), *parts, "</svg>", ""])


NAMES, PLOT, RIGHT = 190, 620, 130


def bars(title, unit, rows):
    """rows: {"name", "value", "low", "high", "text", "style" 0 to 3} or {"name", "reason"} for one without a value."""
    known = [r for r in rows if "reason" not in r]
    axis = Axis([v for r in known for v in (r["value"], r["low"], r["high"])], NAMES, PLOT)
    bottom = 56 + 26 * len(rows)
    parts = [f'<g {axis.data()} data-axis="x">']
    for tick in axis.ticks():
        x = axis.place(tick)
        parts += [line(x, 40, x, bottom, "g"), text(x, bottom + 16, short(tick), "m d")]
    parts += [text((NAMES + PLOT) / 2, bottom + 34, unit, "m d"), "</g>"]
    for n, r in enumerate(rows):
        y = 46 + 26 * n
        parts.append(text(NAMES - 8, y + 14, r["name"], "e"))
        if "reason" in r:
            parts.append(text(NAMES + 6, y + 14, r["reason"][:95], "x"))
            continue
        x = axis.place(r["value"])
        parts.append(f'<rect x="{NAMES}" y="{y}" width="{max(x - NAMES, 1):.1f}" height="18" class="c{r["style"]}" '
                     f'data-value="{r["value"]:g}"/>')
        low, high = axis.place(r["low"]), axis.place(r["high"])
        parts += [line(low, y + 9, high, y + 9, "w"), line(low, y + 5, low, y + 13, "w"), line(high, y + 5, high, y + 13, "w"),
                  text(max(high, x) + 6, y + 14, r["text"])]
    return document(PLOT + RIGHT, bottom + 46, title, parts)


PANEL_W, PANEL_H, LEFT, TOP = 390, 266, 56, 56


def one_panel(panel, left, top):
    """A plot of series over x. Points that reached a limit have a ring."""
    points = [p for s in panel["series"] for p in s["points"]]
    x = Axis([p[0] for p in points], left + LEFT, left + PANEL_W - 24)
    y = Axis([p[1] for p in points], top + PANEL_H - 44, top + TOP + 18)
    parts = [text(left + 12, top + 20, f"{panel['title']}, {panel['unit']}", "h")]
    parts.append(f'<g {x.data()} data-axis="x">')
    for tick in x.ticks():
        parts += [line(x.place(tick), y.end, x.place(tick), y.begin, "g"), text(x.place(tick), y.begin + 16, short(tick), "m d")]
    parts += [text((x.begin + x.end) / 2, y.begin + 32, panel["x"], "m d"), "</g>", f'<g {y.data()} data-axis="y">']
    for tick in y.ticks():
        parts += [line(x.begin, y.place(tick), x.end, y.place(tick), "g"),
                  text(x.begin - 6, y.place(tick) + 4, short(tick), "e d")]
    parts.append("</g>")
    at, row = x.begin, top + 32
    for n, s in enumerate(panel["series"]):
        style, width = s.get("style", n) % 4, 26 + 6.4 * len(s["name"])
        if at > x.begin and at + width > left + PANEL_W:
            at, row = x.begin, row + 17
        parts.append(f'<rect x="{at:.1f}" y="{row}" width="10" height="10" class="c{style}"/>')
        parts.append(text(at + 14, row + 9, s["name"]))
        at += width
        spots = [(x.place(px), y.place(py), is_limit) for px, py, is_limit in s["points"]]
        if len(spots) > 1:
            parts.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b, _ in spots)}" class="l s{style}"/>')
        for (a, b, is_limit), (px, py, _) in zip(spots, s["points"]):
            parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="c{style}" data-x="{px:g}" data-value="{py:g}"/>')
            if is_limit:
                parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="6" class="o"/>')
    return parts


def panels(title, note, plots):
    """Two in a row. plots: {"title", "unit", "x", "series": [{"name", "points": [(x, y, is_limit)]}]}."""
    parts = []
    for n, panel in enumerate(plots):
        parts += one_panel(panel, n % 2 * PANEL_W, 34 + n // 2 * PANEL_H)
    height = 34 + (len(plots) + 1) // 2 * PANEL_H
    if note:
        parts.append(text(12, height + 10, note, "d"))
    return document(2 * PANEL_W, height + 24, title, parts)
