"""The table and the chart."""
import math
import statistics
from html import escape

STYLE = """
.paper{fill:#fff} text{fill:#1f2328} .grid{stroke:#d1d9e0} .ours{fill:#1a7f37} .floor{fill:#818b98} .batch{fill:#0969da} .single{fill:#bf8700}
@media (prefers-color-scheme:dark){.paper{fill:#0d1117} text{fill:#f0f6fc} .grid{stroke:#3d444d} .ours{fill:#3fb950} .floor{fill:#9198a1}
.batch{fill:#4493f8} .single{fill:#d29922}}
"""


def shown(rate):
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.1f} k" if rate >= 1e3 else f"{rate:.0f}"


def median(figures):
    rates = [figure for figure in figures if isinstance(figure, float)]
    return statistics.median(rates) if rates else None


def cell(figures):
    rate, whys = median(figures), [figure for figure in figures if isinstance(figure, str)]
    if rate is None:
        return whys[0] if whys else "no such call"
    return shown(rate) + (f" ({len(whys)} of {len(figures)} turns failed: {whys[0]})" if whys else "")


def times(ours, theirs):
    if not ours or not theirs:
        return "–"
    ratio = ours / theirs
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def table(ours, floor, peers):
    """Each of `peers`: name, promise, figures by mode. Ratios are of medians, like with like."""
    modes = ("batch", "single")
    lines = ["| system | promise | in batches, messages/s | one by one, messages/s | queenright : it, in batches | one by one |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    lines.append("| **queenright** | one outcome, recorded once | " + " | ".join(f"**{cell(ours[mode])}**" for mode in modes) + " | | |")
    rows = [("plain Redis: RPUSH and LPOP of 500; LPUSH alone by 50 clients", "none", floor), *peers]
    for name, promise, figures in rows:
        cells = [cell(figures[mode]) for mode in modes] + [times(median(ours[mode]), median(figures[mode])) for mode in modes]
        lines.append(f"| {name} | {promise} | {' | '.join(cells)} |")
    return lines


def goal(what, ours, theirs, wanted, moonshot):
    if not ours or not theirs:
        return f"- queenright flat out : {what}: not measured (wanted {wanted}, moonshot {moonshot})."
    ratio = ours / theirs
    word = "the moonshot" if ratio >= moonshot else "reached" if ratio >= wanted else "**not reached**"
    return f"- queenright flat out : {what}: **{ratio:.0f}** (wanted {wanted}, moonshot {moonshot}): {word}."


def chart(title, systems):
    """Bars on a logarithmic axis. Each of `systems`: name, class or None, rates by mode."""
    bars = []
    for name, kind, rates in systems:
        measured = [(mode, rate) for mode, rate in rates.items() if rate]
        bars += [(name if first == 0 else "", kind or mode, mode, rate, first == 0) for first, (mode, rate) in enumerate(measured)]
    width, bar, gap, left, right, top = 880, 13, 8, 230, 90, 62
    low = math.floor(math.log10(min(rate for *_, rate, _ in bars)))
    high = math.ceil(math.log10(max(rate for *_, rate, _ in bars)))
    x = lambda rate: left + (math.log10(rate) - low) / (high - low) * (width - left - right)
    bottom = top + bar * len(bars) + gap * sum(first for *_, first in bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 44}" font-family="sans-serif" font-size="12" role="img">']
    out += [f"<title>{escape(title)}</title><style>{STYLE}</style>", '<rect class="paper" width="100%" height="100%"/>']
    out.append(f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>')
    legend = [("ours", "queenright"), ("batch", "peer, in batches"), ("single", "peer, one by one"), ("floor", "plain Redis, no guarantee")]
    for index, (kind, text) in enumerate(legend):
        out.append(f'<rect class="{kind}" x="{left + 150 * index}" y="36" width="10" height="10"/><text x="{left + 150 * index + 15}" y="45">{text}</text>')
    for power in range(low, high + 1):
        at = x(10**power)
        out.append(f'<path class="grid" d="M{at:.1f} {top}V{bottom + 6}"/><text x="{at:.1f}" y="{bottom + 20}" text-anchor="middle">{10**power:,}</text>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{bottom + 38}" text-anchor="middle">messages a second, logarithmic</text>')
    y = top
    for name, kind, mode, rate, first in bars:
        y += gap if first else 0
        label = shown(rate) + (" one by one" if mode == "single" and kind in ("ours", "floor") else "")
        out.append(f'<text x="{left - 8}" y="{y + 10}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{max(x(rate) - left, 1):.1f}" height="{bar - 2}"/>')
        out.append(f'<text x="{x(rate) + 5:.1f}" y="{y + 10}" font-size="11">{label}</text>')
        y += bar
    return "\n".join(out) + "\n</svg>\n"
