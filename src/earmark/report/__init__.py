"""The experiments of the five papers, run on this code: tables, plots and a verdict on every claim.

    experiment.py  what an experiment is, and what it measured: panels, series, points with raw samples and counts
    bench.py       what an experiment measures with: contenders in turns, after a warm-up, every answer checked
    answers.py     searching a workload with an index, and the exact answers it is compared with
    claims/        the claims of each paper (TOML) and their verdicts, computed from the measurement
    explanations/  why claims fail in the committed run (TOML); its numbers are citations, none is typed
    citations.py   numbers of results, cited by where they are
    papers/        one module per paper: its `EXPERIMENTS`
    results.py     one JSON file per experiment, in one versioned schema
    run.py         run experiments with progress; write JSON, SVG, PNG and one HTML report
    plots.py, html.py, pages.py    the same measurement drawn, as one HTML page, and as blocks of the documentation
    protocol.py    clocks, memory, and the machine; the benchmarks use it too

An experiment is a generator that takes a `Bench`. It yields after each piece of work, which moves the progress bar:

    def figure_6(bench: Bench) -> Iterator[None]:
        n, events = bench["n"], bench["events"]             # the parameters of the scale that was asked for
        for side in bench["sides"]:
            workload = skew("90-10", n, events=events, seed=bench.seed)
            index = VcrIndex.build(workload.table(), longest=(side, side))
            bench.race(
                "search time", side,                        # panel and x
                {"VCR": search(index, workload, events)},   # series: one call is one sample
                per=events,                                 # searches in one call; samples are µs per search
                check=lambda name, call, answer: "" if right(answer) else "3 matches missing",
                counts={"VCR": {"entries": index.describe()["entries"]}},
            )
            bench.record("storage", "VCR", side, [index.nbytes / 2**20])
            yield

    FIGURE_6 = Experiment(
        paper="vcr", name="figure-6", title="The impact of the longest side", section="3.2",
        published="n = 256,000 rectangles by the 90-10 rule on a grid of 60,000 points, 100,000 searches",
        setting="{n:,} rectangles, {events:,} searches",    # formatted with the parameters of the scale
        differs="",                                         # what a small machine forces to be smaller, or else differs
        panels=(Panel("search time", "longest side L", "µs per search"), Panel("storage", "longest side L", "MiB")),
        scales={"tiny": {"n": 500, ...}, "quick": {...}, "full": {...}},
        seconds={"quick": 20, "full": 90},                  # roughly, for the time left
        printed=(Printed("search time", "VCR", 16, 300.0),),
        run=figure_6,
    )

and a claim about it in `claims/vcr.toml` (all rules: `claims/__init__.py`):

    [[claim]]
    id = "best-side-by-storage"
    section = "3.2"
    text = "For W = 20 the best longest side is 8 by storage."
    experiment = "figure-6"
    panel = "storage"
    rule = "best"
    series = "VCR"
    expected = [8]

**Scales.** `full` has the papers' sizes, `quick` all of it in ten minutes, `tiny` is for tests: every code path in a
second or so, and verdicts that mean nothing, so none is reported. Results of two scales never share a folder.

**Samples** are medians' raw material and stay in the JSON, with seeds and operation counts. A point whose answers are
wrong has no samples: it cannot look fast, and every claim about it fails.
"""
