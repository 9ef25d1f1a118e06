"""The page docs/evidence.md, written from benchmarks/results alone: one source of numbers."""

import numpy as np

from benchmarks.evidence import (
    CUTS,
    JUDGES,
    LOWER,
    MORE_CUTS,
    MOST_FEATURES,
    MOST_SAMPLES,
    NOISE_DRAWS,
    PLANTED_DRAWS,
    RARE,
    RESULTS,
    SIZES,
    STRUCTURE_DRAWS,
    SWAP_SIZES,
    TESTED_DRAWS,
    UNITS,
    stored,
)
from benchmarks.planted import FAMILIES

OURS = "jointsparse"
BEFORE = "jointsparse, before"
EXCHANGE = "CSS, exchange"
NAMES = {
    OURS: "**SPCAPSD()**",
    "jointsparse, GreedySelector": "**GreedySelector()**",
    BEFORE: "SPCAPSD() before",
    "skmatter CUR": "CUR",
    "skmatter FPS": "FPS",
    "fastcan": "fastcan",
    EXCHANGE: "CSS, exchange",
    "random subsets": "random features",
    "largest variance": "largest variance",
}
HEAD = """<!-- Written by `python -m benchmarks.evidence page` from benchmarks/results. -->
# Evidence

What the answers of jointsparse are worth, beside other tools and beside chance. Every number on
this page is measured by one command, `python -m benchmarks.evidence`, and written here by a
script from what it stored (`benchmarks/results/*.json`). No label chooses anything. Every tool
runs in a process of its own with its defaults, but for what is said below.
"""


def shares(folder=RESULTS):
    """Return {tool: {"all samples: ridge 10": {dataset: R²}}}."""
    found = {}
    for name, tools in stored("worth", folder).items():
        for tool, outcome in tools.items():
            _gather(found, tool, name, outcome["quality"])
    for name, sizes in stored("exchange", folder).items():
        for outcome in sizes.values():
            _gather(found, EXCHANGE, name, outcome["quality"])
    return found


def _gather(found, tool, name, quality):
    for metric, value in quality.items():
        found.setdefault(tool, {}).setdefault(metric, {})[name] = value


def percent(value):
    return f"{100 * value:.1f}"


def in_words(metric):
    """Return "ridge, h = 10" for "all samples: ridge 10"."""
    judge, h = metric.split(": ")[1].rsplit(" ", 1)
    return f"{judge}, h = {h}"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def grid(head, rows):
    return "\n".join([row(head), row(["---"] * len(head)), *map(row, rows)])


def common_means(found, tool, metric):
    """Return the means of a tool and of ours over the tables that both have, and their number."""
    theirs, ours = found.get(tool, {}).get(metric, {}), found[OURS].get(metric, {})
    common = [name for name in ours if name in theirs]
    if not common:
        return None, None, 0
    return np.mean([theirs[n] for n in common]), np.mean([ours[n] for n in common]), len(common)


def worth_table(found, units):
    """Means over the tables that ours finished; of a tool that did not, ours on the same ones."""
    metrics = [f"{units}: {judge} {h}" for judge in JUDGES for h in SIZES]
    metrics = [metric for metric in metrics if metric in found[OURS]]
    rows = []
    for tool in (tool for tool in NAMES if tool in found):
        cells = [NAMES[tool]]
        for metric in metrics:
            theirs, ours, count = common_means(found, tool, metric)
            words = "–" if count == 0 else percent(theirs)
            if 0 < count < len(found[OURS][metric]):
                words += f" (jointsparse {percent(ours)}, {count} table{'s' * (count > 1)})"
            cells.append(words)
        rows.append(cells)
    heads = [f"{in_words(metric)} ({len(found[OURS][metric])})" for metric in metrics]
    return grid(["R² of the dropped features, %", *heads], rows)


def others(found, units):
    """Yield (metric, tool) of every tool that is not ours, in some units."""
    for metric in found[OURS]:
        for tool in NAMES:
            if metric.startswith(units) and not tool.startswith(OURS) and tool in found:
                yield metric, tool


def behind(found, units):
    """Return [(metric, table, tool, theirs, ours)] where another tool is ahead by 0.5 points."""
    return [
        (metric, name, tool, value, found[OURS][metric][name])
        for metric, tool in others(found, units)
        for name, value in found[tool].get(metric, {}).items()
        if name in found[OURS][metric] and value > found[OURS][metric][name] + 0.005
    ]


def ahead_in_the_mean(found, units):
    """Return in words which tools have a higher mean than ours, over the tables they finished."""
    words = []
    for metric, tool in others(found, units):
        theirs, ours, count = common_means(found, tool, metric)
        if count and theirs > ours:
            words.append(
                f"{in_words(metric)}: {NAMES[tool]} {percent(theirs)}, jointsparse {percent(ours)}"
            )
    if not words:
        return "In the mean no other tool is ahead, under either judge."
    return f"In the mean another tool is ahead here: {'; '.join(words)}."


def turned_by_the_judge(found, units):
    """Return in words which tools change places under the other judge, on tables that both have."""
    words = []
    for h in SIZES:
        ridge, plain = (f"{units}: {judge} {h}" for judge in JUDGES)
        if plain not in found[OURS]:
            continue
        both = [name for name in found[OURS][plain] if name in found[OURS][ridge]]
        tools = [
            tool
            for tool in NAMES
            if all(set(both) <= set(found.get(tool, {}).get(key, {})) for key in (ridge, plain))
        ]
        means = {
            tool: [np.mean([found[tool][key][name] for name in both]) for key in (ridge, plain)]
            for tool in tools
        }
        pairs = [
            f"{NAMES[a]} and {NAMES[b]}".replace("**", "")
            for a in tools
            for b in tools
            if means[a][0] > means[b][0] + 0.005 and means[b][1] > means[a][1] + 0.005
        ]
        words.append(f"h = {h} ({len(both)} tables): {', '.join(pairs) or 'none'}")
    return (
        "Tools that change places with the judge (the first ahead under ridge, the second under "
        f"least squares, by more than half a point): {'; '.join(words)}."
    )


def losses(found, units):
    rows = [
        [in_words(metric), name, NAMES[tool], percent(theirs), percent(ours)]
        for metric, name, tool, theirs, ours in behind(found, units)
    ]
    head = ["judge, h", "table", "tool", "its R², %", "jointsparse, %"]
    return grid(head, rows) if rows else "none."


def heaviest_in_words(folder):
    """Return on which tables one feature holds more than a fifth of the squares of some half."""
    found = {n: max(o["heaviest feature"]) for n, o in stored("extremes", folder).items()}
    heavy = sorted((n for n in found if found[n] > 0.2), key=lambda n: -found[n])
    words = ", ".join(f"{name} {100 * found[name]:.0f} %" for name in heavy)
    return f"The share of a single one, where it is above 20 % in some half: {words or 'none'}."


def least_squares_in_words(folder):
    """Return how many of our fifty kept features hang on one sample, where some do."""
    found = stored("extremes", folder)
    means = {n: np.mean(o["kept that hang on one sample"]) for n, o in found.items()}
    words = ", ".join(f"{name} {means[name]:.1f}" for name in means if means[name] >= 1)
    return (
        "A regression on a feature that hangs on one sample extrapolates in new ones, and the rule "
        "counts such features for less. Of the fifty that SPCAPSD keeps, so many still have more "
        f"than {100 * RARE:.0f} % of their squares in one sample (mean of the halves, where at "
        f"least 1): {words or 'none'}.{before_in_words(folder)}{costliest_in_words(folder)}"
    )


def costliest_in_words(folder):
    """Return where one pick costs more than ten points in some half, and why no rule saw it."""
    words = [
        f"{name}: pick {one['pick']} takes R² from {percent(one['before'])} to "
        f"{percent(one['after'])}; its values are at most {one['farthest']:.1f} standard "
        f"deviations out where it was picked, and {one['farthest in new samples']:.0f} in the "
        "other half"
        for name, found in stored("extremes", folder).items()
        for one in found.get("costliest pick", ())
        if one["before"] - one["after"] > 0.1
    ]
    if not words:
        return ""
    return (
        " What one feature among the first twenty can cost (ridge, all features alike), where it "
        f"is more than ten points in some half: {'; '.join(words)}. Such a pixel is dark in all "
        "images of one half, where it says how bright the background is, as many others do, and "
        "lit in an image of the other: nothing in the half that selects tells it from those that "
        "stay dark, and which of them is picked decides on the mean of that table."
    )


def behind_before(folder):
    """Return [(metric, table)] where the default before is ahead by five points, all alike."""
    found = shares(folder)
    return [
        (metric, name)
        for metric, tables in found.get(BEFORE, {}).items()
        for name, value in tables.items()
        if metric.startswith("all samples") and value > found[OURS][metric][name] + 0.05
    ]


def before_in_words(folder):
    """Return where the default before is ahead by five points, and how it is on other cuts."""
    found, more = shares(folder), stored("cuts", folder)
    ahead = []
    for metric, name in behind_before(folder):
        both = [percent(found[tool][metric][name]) for tool in (BEFORE, OURS)]
        words = f"{in_words(metric)}, {name} {both[0]} (now {both[1]}"
        if name in more:
            other = [percent(more[name][tool]["quality"][metric]) for tool in (BEFORE, OURS)]
            words += f"; on ten other cuts {other[0]}, now {other[1]}"
        ahead.append(words + ")")
    return f" The default before is ahead by five points here: {'; '.join(ahead)}." if ahead else ""


def worth_part(folder=RESULTS):
    found = shares(folder)
    if OURS not in found:
        return ""
    tables = len({name for metric in found[OURS].values() for name in metric})
    return f"""
## What the kept features predict of the others

{tables} tables (of each at most {MOST_SAMPLES} samples and {MOST_FEATURES} features), {len(CUTS)}
cuts into halves, both ways round. Features are scaled and selected on one half, the dropped ones
are regressed on the kept ones there, and the other half is the judge. Two judges: a ridge
regression (ridge by generalised cross-validation, at least 1e-3 of the largest eigenvalue), and
plain least squares where the kept features are fewer than 0.45 of the samples. Mean over the
tables, whose number is in brackets.

Errors of different features are added up, so their units matter. As planned, in units of the half
that was selected on:

{worth_table(found, "training half")}

{ahead_in_the_mean(found, "training half")}

{turned_by_the_judge(found, "training half")}

In these units a feature that hardly varied in one half can hold most of the squares of the other.
{heaviest_in_words(folder)} The second table was added for that reason, after the first numbers of
usps had been seen: every feature in units of its standard deviation over all samples, so that all
count alike. Selection and regression are the same.

{worth_table(found, "all samples")}

{ahead_in_the_mean(found, "all samples")}

{turned_by_the_judge(found, "all samples")}

{least_squares_in_words(folder)}

*Before* is the default of the version before the noise edge. Random features are the mean of
twenty sets. CSS has four minutes of the processor for each count, and says no to sets larger than
the samples determine. It takes minutes, and was measured on some tables only
({", ".join(stored("exchange", folder))}): where it has fewer tables, the mean of jointsparse over
the same ones stands beside its own. Features of largest variance are those of the values as they
came; all others see
standardised ones. fastcan is given as many principal components as features are kept, at most half
as many as samples. CUR and FPS fill up at random where nothing is left to gain (`full=True`).

Tables on which another tool is ahead by more than half a point, in units of the training half:

{losses(found, "training half")}

and with all features counting alike:

{losses(found, "all samples")}
"""


def words_part(folder=RESULTS):
    """Word counts that nobody scales: both measures, as they order the tools otherwise."""
    tools = stored("words", folder).get("word counts", {})
    if OURS not in tools:
        return ""
    metrics = list(tools[OURS]["quality"])
    of_all = [metric for metric in metrics if metric.startswith("of all")]
    dropped = [metric for metric in metrics if metric not in of_all]
    shown = [
        (NAMES[tool], tools[tool]["quality"])
        for tool in NAMES
        if tools.get(tool, {}).get("quality")
    ]

    def lines(chosen):
        rows = [[name, *(percent(quality[m]) for m in chosen)] for name, quality in shown]
        return grid(["R² in new documents, %", *map(in_words, chosen)], rows)

    return f"""
## Word counts, as they are

How often each word stands in the descriptions of functions of NumPy, SciPy and scikit-learn
(`benchmarks/word_counts.py`; at most {MOST_SAMPLES} documents): nothing is scaled, for any tool
and for the judge, so that "the" has a quarter of all squares and most counts are 0. Of the *other*
words, the kept ones predict:

{lines(dropped)}

Whoever keeps the words that can be predicted has others left to predict: random words leave "the"
to be found. Of *all* words, those kept included:

{lines(of_all)}

{words_in_words(tools, dropped, of_all)}
"""


def words_in_words(tools, dropped, of_all):
    """Say who is ahead of the default, and what follows for columns of such different size."""
    ahead = [
        f"{in_words(metric)}, {kind} words: {name} {percent(theirs)}, jointsparse {percent(ours)}"
        for kind, chosen in (("dropped", dropped), ("all", of_all))
        for metric in chosen
        for ours in [tools[OURS]["quality"][metric]]
        for name, theirs in [
            max(
                (
                    (NAMES[tool], tools[tool]["quality"][metric])
                    for tool in NAMES
                    if tool != OURS and tools.get(tool, {}).get("quality")
                ),
                key=lambda pair: pair[1],
            )
        ]
        if theirs > ours
    ]
    if not ahead:
        return "No tool is ahead of the default of jointsparse here."
    return (
        "Who is ahead depends on the question. The best of the others is ahead of the default "
        f"here: {'; '.join(ahead)}. By default the penalty that leaves features out is a share of "
        "the strongest pattern, which is the length of a document here; what is much weaker is "
        "given up. The command line scales columns unless told otherwise; in Python, scale them "
        "or take `GreedySelector` where a few columns have most of the squares."
    )


def structure_found(found, kind):
    """Return the largest share of draws of a kind of noise, over the sizes, with structure."""
    ones = [one for key, one in found.items() if key.rsplit("/", 1)[0] == kind]
    return max(one["structure"] / one["structure_draws"] for one in ones)


def alarms_in_words(one):
    share = 100 * one["structure"] / one["structure_draws"]
    return f"{one['SPCAPSD']} / {one['GreedySelector']}; {share:.1f} %"


def others_part(folder=RESULTS):
    found = {name: one for name, one in stored("others", folder).items() if one}
    if not found:
        return ""
    metrics = [f"all samples: {judge} {h}" for judge in JUDGES for h in SIZES]
    rows = []
    for rule in ("with", "without"):
        cells = [f"{rule} it"]
        for metric in metrics:
            values = [one[rule][metric] for one in found.values() if metric in one[rule]]
            cells.append(f"{percent(np.mean(values))} ({len(values)})" if values else "–")
        rows.append(cells)
    head = ["R² of the dropped features, %", *map(in_words, metrics)]
    return f"""
## Features that hang on single samples

That the greedy rule counts such features for less was found on the tables above, so it was tried on
others that had no part in it: bundled with scikit-learn, of the UCI repository, and made up
({", ".join(found)}). Mean of GreedySelector over the tables (their number in brackets), all
features counting alike:

{grid(head, rows)}

That columns of up to twice the kurtosis of Gaussian ones count alike was settled after both kinds
of tables had been seen; it moves none of these means by more than a point.
"""


def noise_part(folder=RESULTS):
    found = stored("noise", folder)
    if not found:
        return ""
    kinds, shapes = [], []
    for key in found:
        kind, shape = key.rsplit("/", 1)
        kinds += [kind] if kind not in kinds else []
        shapes += [shape] if shape not in shapes else []
    rows = [
        [
            kind,
            *(
                alarms_in_words(found[f"{kind}/{s}"]) if f"{kind}/{s}" in found else "–"
                for s in shapes
            ),
        ]
        for kind in kinds
    ]
    draws = sum(one["draws"] for one in found.values())
    alarms = sum(one["SPCAPSD"] for one in found.values())
    several = {kind: structure_found(found, kind) for kind in kinds}
    most = max(several.values())
    worst = next(kind for kind in kinds if several[kind] == most)
    return f"""
## Tables of noise

Promised is that at most 5 of 100 tables of pure noise seem to have structure: a pattern, or a pair
of features that go together. Of {STRUCTURE_DRAWS} draws of each kind and size the most that do are
{100 * most:.1f} % ({worst}).

How many of {NOISE_DRAWS} tables of pure noise have features kept, with the defaults (SPCAPSD /
GreedySelector with "auto"; samples × features), then the share of {STRUCTURE_DRAWS} in which
structure is found. Kept are features of {alarms} of {draws}. CUR, FPS,
fastcan and CSS have no such answer: they keep as many features as they are told to, in every table
(CUR and FPS half of all features where they are told nothing).

{grid(["noise", *(s.replace("x", " × ") for s in shapes)], rows)}
"""


def planted_part(folder=RESULTS):
    found, tested = stored("planted", folder), stored("tested", folder)
    if not found or set(found) - set(tested):
        return ""
    rows = []
    for family, one in found.items():
        counts = [draw["kept"] for draw in one["draws"]]
        noise = sum(draw["kept"] > draw["kept_signal"] for draw in one["draws"])
        test = tested[family]
        rows.append(
            [
                family,
                f"{test['shares'][0]:.3f}",
                f"{area_of_ranking(one):.3f}",
                f"{test['scores'][0]:.3f}",
                f"{percent(test['fdp'][0])} ± {percent(test['fdp'][1])}",
                percent(test["power"][0]),
                f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0]),
                f"{noise} of {len(counts)}",
            ]
        )
    head = ["signal", "AUC of shares", "of the ranking", "of scores", "false, %", "found, %"]
    head += ["kept", "tables with noise kept"]
    return f"""
## Tables with known signal

{TESTED_DRAWS} draws each. *AUC*: how well the share that a feature has in common with others, its
place in `ranking_` and the score of SPCAPSD (at λ → 0, in closed form) tell signal from noise (1
is perfect). *False*: share of the features called significant that are noise, with its standard
error (5 % is asked for); *found*: share of the signal that is called significant. Of
{PLANTED_DRAWS} draws: the ranking, how many features "auto" keeps, and in how many tables any of
them is noise. The last {len(FAMILIES)} families were made when everything else was settled.

{grid(head, rows)}

{scores_in_words(found, tested)}
"""


def area_of_ranking(one):
    return float(np.mean([draw["auc of ranking"] for draw in one["draws"]]))


def scores_in_words(found, tested):
    """Return where scores tell less than shares and rankings do, and why."""
    below = [family for family, one in tested.items() if one["scores"][0] < 0.99]
    if not below:
        return ""
    kinds = ("scores, lower", "scores, weighted", "loadings")
    rows = [
        [
            family,
            f"{tested[family]['scores'][0]:.3f} ± {tested[family]['scores'][1]:.4f}",
            *(f"{tested[family][kind][0]:.3f}" for kind in kinds),
            f"{area_of_ranking(found[family]):.3f}",
        ]
        for family in below
    ]
    head = ["signal", "scores", f"with η at {LOWER} of the edge", "samples weighted"]
    head += ["√ω_jj", "ranking"]
    least = min(map(area_of_ranking, found.values()))
    return f"""The order to go by is `ranking_`: its area is at least {least:.3f} in every family.
Scores are below 0.99 in {len(below)} of {len(tested)}:

{grid(head, rows)}

Why: at λ → 0 and with η at the noise edge e the score is ‖ω_j‖, and ‖ω_j‖² = Σ_i (1 − e/s_i)² v_ij²
over the eigenpairs of S. A pattern hardly above the edge, of the smallest groups, counts with
nearly nothing, and its features fall behind noise that leaks into strong patterns. It is no matter
of ties: there hardly any score is zero. Since this is a closed form, no solver and no order of ties
can bring ‖ω_j‖ at the edge above these numbers. Two ways were measured. A lower η leaves more of
weak patterns, and of the noise. √ω_jj, the length of a row of `loadings_`, has 1 − e/s_i once
instead of twice and mends both families of unequal sizes, but where samples are of different noise
levels loud ones rule it even more than they rule ‖ω_j‖ (weights for the samples,
`feature_significance(X).sample_weights`, mend that). So the score stays the published one, for
those who want it; features are picked, and ranked, among those that the shares call significant,
which knows neither fault."""


def cuts_part(folder=RESULTS):
    found = stored("cuts", folder)
    if not found:
        return ""
    metrics = [f"{units}: {judge} {h}" for units in UNITS for judge in JUDGES for h in SIZES]
    rows = []
    for metric in metrics:
        gap = differences(found, metric)
        if not gap.size:
            continue
        both = [one for one in found.values() if metric in one[BEFORE]["quality"]]
        error = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.nan
        worst = min(found, key=lambda name: gap_of(found[name], metric))
        rows.append(
            [
                f"{in_words(metric)}, {metric.split(':')[0]}",
                *(
                    percent(np.mean([one[tool]["quality"][metric] for one in both]))
                    for tool in (OURS, BEFORE)
                ),
                f"{100 * gap.mean():+.1f} ± {100 * error:.1f}",
                f"{np.sum(gap > 0)} of {gap.size}",
                f"{worst} {100 * gap_of(found[worst], metric):+.1f}",
            ]
        )
    head = ["judge, h, units", "now", "before", "difference", "ahead on", "least"]
    return f"""
## The default now and before

Two cuts are few where one feature can decide on a table, as the dark pixels of coil20 do. So the
default now and before were measured on {len(MORE_CUTS)} other cuts, {2 * len(MORE_CUTS)} halves of
each table: mean R² of the dropped features in the other half, and the difference with its standard
error over the tables.

{grid(head, rows)}
"""


def gap_of(one, metric):
    now, before = (one[tool]["quality"].get(metric, np.nan) for tool in (OURS, BEFORE))
    return np.inf if np.isnan(now - before) else now - before


def auto_part(folder=RESULTS):
    found = stored("auto", folder)
    if not found:
        return ""
    rows = [
        [
            name,
            f"{one['samples']} × {one['of']}",
            str(one["kept"]),
            "–" if one["r2"] is None else percent(one["r2"]),
            "–" if one["random"] is None else percent(one["random"]),
            f"{one['ratio']:.1f}",
            one["verdict"],
        ]
        for name, one in found.items()
    ]
    worst = max(found, key=lambda name: found[name]["ratio"])
    head = ["table", "size", "kept", "R², %", "random, %", "time", "verdict"]
    return f"""
## "auto": how many features

What `SPCAPSD()` keeps of the same tables, what that predicts of the dropped features in new
samples (selection repeated in every fold) beside random features, and the time of the fit over
that of a fit with the count given (processor, one thread; 5 at most is promised, the most is
{found[worst]["ratio"]:.1f}, on {worst}).

{grid(head, rows)}
"""


def swaps_part(folder=RESULTS):
    found = stored("swaps", folder)
    if not found:
        return ""
    rows = [
        [family, judge, *(gain_of_swaps(found, family, units, judge, h) for h in SWAP_SIZES)]
        for family in ("SPCAPSD", "all features")
        for units in UNITS
        for judge in (f"{judge}, {units}" for judge in JUDGES)
    ]
    times = [
        one[f"{family}, swap"]["seconds"] / one[f"{family}, greedy"]["seconds"]
        for one in found.values()
        for family in ("SPCAPSD", "all features")
    ]
    sizes = [f"k = {h}" for h in SWAP_SIZES]
    return f"""
## Exchanges after the greedy rule

Should `rule="swap"` be the default? In the samples that select, an exchange never explains less.
What counts is new samples: the greedy picks of `SPCAPSD`, and those with all features as the
target, before and after exchanges, selected anew in each half and judged in the other, as above.
Points of R² that exchanges add, mean over the tables with its standard error, and on how many
tables they add something:

{grid(["target", "judge", *sizes], rows)}

Up to five features exchanges are worth about half a point, for two standard errors; from ten on
nothing can be told from noise, and single tables lose much. (Least squares on fifty features of a
hundred samples explodes with either set.) So **"greedy" stays the default**: its picks are nested,
so that the first five of ten are the five that would have been kept, and from ten on there is
nothing to gain. For up to five features, where all that matters is the set, `rule="swap"` or
`SubsetSelector` is the better choice; it takes {min(times):.1f} to {max(times):.1f} times as long
as the greedy rule.
"""


def rules_part(folder=RESULTS):
    found = stored("rules", folder)
    if not found:
        return ""
    rules = list(next(iter(found.values())))
    metrics = [f"all samples: ridge {h}" for h in SIZES] + ["acc 10", "nmi 10", "acc 50", "nmi 50"]
    rows = [
        [
            f"`{rule}`",
            *(
                percent(np.mean([one[rule]["quality"][m] for one in found.values()]))
                for m in metrics
            ),
            percent(np.mean([one[rule]["agree"] for one in found.values()])),
        ]
        for rule in rules
    ]
    heads = [f"R², h = {h}" for h in SIZES] + ["ACC, h = 10", "NMI, h = 10"]
    heads += ["ACC, h = 50", "NMI, h = 50", "two halves agree on"]
    return f"""
## Rules and targets

The rules of jointsparse on the same {len(found)} tables and cuts, in percent: R² of the dropped
features in the other half (ridge, all features counting alike), accuracy and NMI of K-means on the
kept features of the whole table against the classes (c is their number; no other label is used),
and how many of {max(SIZES)} features two halves of the samples agree on.

{grid(["rule", *heads], rows)}

Sets predict more than the highest scores, and agree less from half to half: of features that stand
in for one another one is enough, and which one it is is chance.
"""


def gain_of_swaps(found, family, units, judge, h):
    """Return what exchanges add in new samples, in words."""
    metric = f"{units}: {judge.split(',')[0]} {h}"
    pairs = [
        (one[f"{family}, swap"]["quality"], one[f"{family}, greedy"]["quality"])
        for one in found.values()
    ]
    gaps = 100 * np.array([a[metric] - b[metric] for a, b in pairs if metric in a and metric in b])
    error = gaps.std(ddof=1) / gaps.size**0.5 if gaps.size > 1 else np.nan
    return f"{gaps.mean():+.1f} ± {error:.1f} ({np.sum(gaps > 0)} of {gaps.size})"


def differences(found, metric):
    """Return now - before of every dataset that both finished."""
    return np.array(
        [
            one[OURS]["quality"][metric] - one[BEFORE]["quality"][metric]
            for one in found.values()
            if metric in one[OURS]["quality"] and metric in one[BEFORE]["quality"]
        ]
    )


def clusters_part(folder=RESULTS):
    found = stored("clusters", folder)
    if not found or not differences(found, "acc 10").size:
        return ""
    rows = []
    for metric in ("acc 10", "nmi 10", "acc 50", "nmi 50"):
        gap = differences(found, metric)
        both = [one for one in found.values() if metric in one[BEFORE]["quality"]]
        error = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.nan
        name, h = metric.split()
        rows.append(
            [
                f"{name.upper()}, h = {h}",
                *(
                    percent(np.mean([one[tool]["quality"][metric] for one in both]))
                    for tool in (OURS, BEFORE)
                ),
                f"{100 * gap.mean():+.1f} ± {100 * error:.1f}",
            ]
        )
    return f"""
## Clusters

K-means from five starts on the kept features, against the classes: mean over {len(found)} tables
of the default now and before, and the difference with its standard error over the tables.

{grid(["%", "now", "before", "difference"], rows)}
"""


def page(folder=RESULTS):
    """Return the page."""
    parts = (
        *(worth_part, words_part, cuts_part, rules_part, others_part, swaps_part),
        *(noise_part, planted_part, auto_part, clusters_part),
    )
    return HEAD + "".join(part(folder) for part in parts)


def write(path):
    path.write_text(page())
    return path
