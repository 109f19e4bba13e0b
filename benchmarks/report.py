"""Tables of results for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import median

from rich.markup import escape
from rich.table import Table

from benchmarks.allreduce_trees import TreesResult
from benchmarks.astra import AstraResult, Incomplete
from benchmarks.astra_exported import ExportedResult
from benchmarks.astra_steps import StepResult
from benchmarks.certificates import CertificateResult, ProofResult
from benchmarks.collectives import CollectiveResult, GenerationResult
from benchmarks.files import FilesResult
from benchmarks.frontier import FoundPoint, FrontierResult
from benchmarks.fuzz import FuzzResult
from benchmarks.growth import GrowthResult
from benchmarks.lab.rates import RateResult
from benchmarks.paper import PaperRow
from benchmarks.process import Startup
from benchmarks.public_files import WANTED, PublicFileResult, Search, show_counts
from benchmarks.reach import ReachResult
from benchmarks.rooted import RootedResult
from benchmarks.routed import RoutedResult
from benchmarks.routed_proofs import FOUND
from benchmarks.scale import ScaleResult
from benchmarks.summary import Ratio, Total
from benchmarks.syndicate import SyndicateResult
from benchmarks.taccl import TacclResult
from benchmarks.teccl import Attained, LeastTimeResult
from benchmarks.teccl_epochs import EpochResult
from benchmarks.teccl_scale import LargeResult
from benchmarks.timing import Raced, Timing, Verdict
from sccl.core.cost import format_bytes

_NUMBERS = ("C", "S", "R")


def seconds_text(seconds: float) -> str:
    """Return seconds with a readable number of decimals."""
    decimals = 3 if seconds < 1 else 2 if seconds < 100 else 0
    return f"{seconds:.{decimals}f}"


def reach_table(results: Sequence[ReachResult], timeout_s: float) -> Table:
    """Return a table of constructions without search and of the search under symmetry."""
    table = Table("collective", "machine", "ranks", *_NUMBERS)
    for name in ("s", "algorithm, s", "MB", "search, s"):
        table.add_column(name, justify="right")
    for r in results:
        searched = "-" if r.searched is None else seconds_text(r.searched)
        table.add_row(
            r.spec.collective,
            r.spec.topology,
            f"{r.spec.ranks:,}",
            *(f"{n}" for n in (r.spec.chunks, r.spec.steps, r.spec.rounds)),
            seconds_text(r.seconds),
            seconds_text(r.alone),
            f"{r.memory_mb:.0f}",
            f"> {timeout_s:g}" if r.searched == -1 else searched,
        )
    return table


def timing_text(timing: Timing, timeout_s: float) -> str:
    """Return a cell: the median, ``> timeout``, or the failure."""
    match timing.verdict:
        case "sat":
            return seconds_text(timing.seconds)
        case "unknown":
            return f"> {timeout_s:g}"
        case "unsat":
            return "[bold red]unsat[/]"
        case "failed":
            return "[red]failed[/]"


def rows_table(
    title: str,
    results: Sequence[Raced[PaperRow]],
    names: Sequence[str],
    peer: str,
    timeout_s: float,
) -> Table:
    """Return the rows with one column of seconds per contender.

    Args:
        peer: Contender of the last two columns, with its seconds and process seconds. Rows without
            a run of the peer leave them empty.
    """
    table = _table(title, "Collective", *_NUMBERS, "Optimal", "Paper s", *(f"{n} s" for n in names))
    for extra in (f"{peer} s", f"{peer} process s"):
        table.add_column(extra, justify="right")
    for result in results:
        row, timings = result.job, result.timings
        ours = [timing_text(timings[n], timeout_s) for n in names]
        theirs = _peer_cells(timings.get(peer), timeout_s)
        table.add_row(
            row.collective, *_numbers(row), row.optimal, f"{row.seconds:g}", *ours, *theirs
        )
    return table


def _peer_cells(timing: Timing | None, timeout_s: float) -> tuple[str, str]:
    if timing is None:
        return "", ""
    process_s = timing.process_seconds
    return timing_text(timing, timeout_s), "" if process_s is None else seconds_text(process_s)


def totals_table(totals: Sequence[Total]) -> Table:
    """Return one line per contender."""
    table = _table("Totals", "Solver", "Solved", "Seconds, solved rows", "Slowest", "Its seconds")
    for t in totals:
        sums = (seconds_text(t.seconds), t.slowest, seconds_text(t.slowest_seconds))
        table.add_row(t.name, f"{t.solved} of {t.rows}", *(sums if t.solved else ()))
    return table


def ratio_text(ratio: Ratio) -> str:
    """Return a sentence about a ratio."""
    if ratio.median is None:
        return f"{ratio.numerator} / {ratio.denominator}: no row was solved by both"
    used = "" if ratio.processor is None else f" (of the processor's time {ratio.processor:.2f})"
    return (
        f"{ratio.numerator} / {ratio.denominator}, row by row: median {ratio.median:.2f}, "
        f"geometric mean {ratio.geometric_mean:.2f}{used}, minimum {ratio.least:.2f}, "
        f"over the {ratio.rows} rows that both solved"
    )


def frontier_table(results: Sequence[FrontierResult]) -> Table:
    """Return a table of the sweeps."""
    table = _table("sccl pareto", "Topology", "Collective", "k", "Seconds", "Points", "Refuted")
    table.add_column("Open", justify="right")
    table.add_column("Points (C, S, R)", no_wrap=False)
    for r in results:
        points = " ".join(_point(p) for p in r.points)
        counts = (str(len(r.points)), str(r.refuted), str(r.open))
        names = (r.spec.topology, r.spec.collective, str(r.spec.k))
        table.add_row(*names, seconds_text(r.seconds), *counts, points)
    return table


def _point(point: FoundPoint) -> str:
    text = f"({point.chunks}, {point.steps}, {point.rounds})"
    return text if point.proved else f"{text}?"


def rooted_table(results: Sequence[RootedResult]) -> Table:
    """Return a table of cut bounds, the best results, and packing bounds, with seconds."""
    table = _table("Bounds on R/C by S", "Collective", "Topology", "S", "Bound", "Seconds")
    for extra in ("Best", "Gap", "All seconds", "Packing alone", "Its seconds"):
        table.add_column(extra, justify="right")
    for r in results:
        above = "met" if r.met else f"{float(r.best / r.bound - 1):.1%}"
        packed, packing_s = "-", "-"
        if r.packed is not None:
            low, high = r.packed
            packed = str(low) if low == high else f"{float(low):.4g} to {float(high):.4g}"
            packing_s = seconds_text(r.packed_seconds)
        names = (r.spec.collective, r.spec.topology, str(r.steps), str(r.bound))
        result_cells = (str(r.best), above, seconds_text(r.seconds))
        table.add_row(*names, seconds_text(r.bound_seconds), *result_cells, packed, packing_s)
    return table


def trees_table(results: Sequence[TreesResult]) -> Table:
    """Return a table of tree allreduce limits and of the lower bound for every allreduce."""
    table = _table("Allreduce by trees", "Topology", "S", "Lower bound", "Trees", "Gap")
    for extra in ("Written (C, R)", "Seconds, all S"):
        table.add_column(extra, justify="right")
    for r in results:
        trees = (
            str(r.upper) if r.lower == r.upper else f"{float(r.lower):.5g}..{float(r.upper):.5g}"
        )
        above = "met" if r.upper == r.every else f"{float(r.upper / r.every - 1):.1%}"
        names = (r.spec.topology, str(r.steps), str(r.every), trees, above)
        table.add_row(*names, str(r.written or "-"), seconds_text(r.seconds))
    return table


def scale_table(results: Sequence[ScaleResult], growth: Mapping[str, float]) -> Table:
    """Return a table of time, memory and variables by ranks, with the growth of time."""
    title = "allgather that meets both lower bounds: sccl solve, the whole process"
    table = _table(title, "Topology", "Ranks", *_NUMBERS, "Symmetry", "Answer", "Variables")
    for extra in ("Seconds", "MB"):
        table.add_column(extra, justify="right")
    for r in results:
        s = r.spec
        numbers = (str(s.ranks), str(s.chunks), str(s.steps), str(s.rounds))
        cells = (f"{r.variables:,}", seconds_text(r.seconds), f"{r.memory_mb:.0f}")
        table.add_row(s.topology, *numbers, s.symmetry, r.verdict, *cells)
    grown = (f"{name}: ranks^{power:g}" for name, power in growth.items())
    table.caption = f"seconds grow, from 64 ranks on, as {'; '.join(grown)}" if growth else None
    return table


def growth_table(results: Sequence[GrowthResult]) -> Table:
    """Return a table of the limits per collective: gap, processor time and memory."""
    title = "Limits at the fewest steps: sccl limits, the whole process"
    table = _table(title, "Collective", "Topology", "Ranks", "S", "Gap", "Processor", "MB")
    for r in results:
        outcome = "met" if r.above == 0 else r.verdict if r.above is None else f"{r.above:.1%}"
        processor_s = seconds_text(r.user_seconds) if r.user_seconds is not None else "-"
        memory = f"{r.memory_mb:.0f}" if r.memory_mb is not None else "-"
        table.add_row(
            r.collective, r.topology, str(r.ranks), str(r.steps), outcome, processor_s, memory
        )
    return table


def startup_table(results: Sequence[Startup]) -> Table:
    """Return a table of startup times and their targets."""
    table = _table("Start", "Command", "Target", "Seconds", "Processor", "Runs")
    for r in results:
        numbers = (r.target_seconds, r.seconds, r.user_seconds)
        table.add_row(r.command, *map(seconds_text, numbers), str(len(r.runs)))
    return table


def files_table(results: Sequence[FilesResult]) -> Table:
    """Return a table of the times to read foreign files, and their targets."""
    columns = ("Files", "Target", "Seconds", "Processor", "Slowest")
    table = _table("Foreign files: sccl, whole process", "Kind", *columns)
    for r in results:
        numbers = (r.target_seconds, r.seconds, r.user_seconds)
        table.add_row(r.what, str(r.files), *map(seconds_text, numbers), escape(r.slowest))
    return table


def least_times_table(results: Sequence[LeastTimeResult]) -> Table:
    """Return a table of bounds, schedules of equal and of arbitrary chunks, and published times."""
    columns = ("Output", "Published", "Its solver")
    both = ("Bound", "Finish", "Gap", "C", "Seconds")
    names = [f"{name}, {kind}" for kind in ("equal chunks", "any") for name in both]
    table = _table(
        "Compared with TE-CCL, alpha travels (us)", "Case", *columns, *names, "Rings", "Bound, any"
    )
    for r in results:
        published = _published_cell(r.published_us, r.note)
        solver = "" if r.published_s is None else seconds_text(r.published_s)
        table.add_row(
            f"{r.collective} {escape(r.topology)}",
            format_bytes(r.output_bytes),
            published,
            solver,
            *_attained_cells(r.equal),
            *_attained_cells(r.any),
            *("" if us is None else f"{us:,.6g}" for us in (r.rings_us, r.least_us)),
        )
    return table


def _published_cell(us: float | None, note: str) -> str:
    if us is None:
        return ""
    return f"{us:,.6g} ({note})" if note else f"{us:,.6g}"


def _attained_cells(attained: Attained | None) -> tuple[str, ...]:
    if attained is None:
        return ("",) * 5
    above = attained.finish_us / attained.bound_us - 1 if attained.bound_us else 0.0
    return (
        f"{attained.bound_us:,.6g}",
        f"{attained.finish_us:,.6g}",
        f"{above:.2%}",
        str(attained.chunks),
        seconds_text(attained.seconds),
    )


def epochs_table(results: Sequence[EpochResult]) -> Table:
    """Return a table of results of the epoch models and of published times."""
    problem_columns = ("Chunk", "C", "Model", "Epoch us", "Epochs")
    result_columns = (
        "Published finish",
        "Its solver",
        "Finish",
        "Bound",
        "Seconds",
        "CPU s",
    )
    table = _table("TE-CCL in epochs (us, s)", "Case", *problem_columns, *result_columns)
    for r in results:
        case = r.case
        labels = [f"{case.collective} {escape(case.topology)}"]
        labels += [] if case.alpha else ["no alpha"]
        labels += ["copies"] if case.copies else []
        labels += [] if case.buffers is None else [f"buffers {case.buffers}"]
        labels += [f"epochs of the {case.epoch} link"] if case.figure == "fig10" else []
        table.add_row(
            ", ".join(labels),
            format_bytes(case.chunk_bytes),
            str(case.chunks),
            case.model,
            "" if r.epoch_us is None else f"{r.epoch_us:g}",
            "" if r.epochs is None else str(r.epochs),
            _published_cell(case.published_us, case.note),
            "" if case.published_s is None else seconds_text(case.published_s),
            f"not found: {escape(r.why)}" if r.finish_us is None else f"{r.finish_us:,.6g}",
            "" if r.bound_us is None else f"{r.bound_us:,.6g}",
            seconds_text(r.seconds),
            seconds_text(r.user_seconds),
        )
    return table


def large_table(results: Sequence[LargeResult]) -> Table:
    """Return a table of results on many ranks: whole processes, targets and published times."""
    columns = ("GPUs", "Finish us", "Bound", "Gap", "Sends", "Seconds", "CPU s", "MB")
    table = _table("Many ranks: sccl, whole process", "Case", *columns, "Target s")
    table.add_column("Published")
    for r in results:
        above = "" if not r.bound_us else f"{r.finish_us / r.bound_us - 1:.2%}"
        table.add_row(
            escape(" ".join(r.case.words[:-1])),
            str(r.case.ranks),
            f"{r.finish_us:,.6g}",
            "" if r.bound_us is None else f"{r.bound_us:,.6g}",
            above,
            f"{r.transfers:,}",
            *map(seconds_text, (r.seconds, r.user_seconds)),
            f"{r.memory_mb:,.0f}",
            "" if r.case.target_s is None else f"{r.case.target_s:g}",
            escape(r.case.published),
        )
    return table


def routed_table(results: Sequence[RoutedResult]) -> Table:
    """Return a table of published algorithms by machine and collective: on the frontier or not."""
    names = tuple(dict.fromkeys(r.algorithm for r in results))
    table = _table("Messages that pass several links in a step", "Machine", "Collective", *names)
    table.caption = (
        "S: R/C. Yes: on the frontier. No: dominated by the given S: R/C (name if published)."
    )
    for case in dict.fromkeys(r.case for r in results):
        cells = {r.algorithm: _routed_cell(r) for r in results if r.case == case}
        row = (case.machine.removeprefix("routed:"), case.collective)
        table.add_row(*map(escape, row), *(escape(cells.get(name, "-")) for name in names))
    return table


def _routed_cell(result: RoutedResult) -> str:
    """Return the verdict on an algorithm."""
    verdict = result.verdict
    if result.rival:
        chunks, steps, rounds = result.rival
        name = "" if result.by == FOUND else f" ({result.by})"
        verdict = f"no, {steps}: {Fraction(rounds, chunks)}{name}"
    halves = "; best of halves" if result.of_halves else ""
    return f"{result.steps}: {result.cost} {verdict}{halves}"


def rates_table(results: Sequence[RateResult]) -> Table:
    """Return a table of carried and configured rates of the lab's channels."""
    table = _table("Channels of the lab", "Limited by", "Transfer", "Rate", "Carried", "Of it")
    for r in results:
        carried = median(r.bits_per_s)
        share = f"{carried / r.asked_bits_per_s:.1%}"
        table.add_row(r.limiter, r.pattern, r.rate, f"{carried / 1e6:.2f} Mb/s", share)
    return table


def steps_table(results: Sequence[SyndicateResult]) -> Table:
    """Return a table of the searches for training plans."""
    table = _table("Training steps", "part", "search", "problems", "optimal", "mean", "worst")
    table.add_column("CPU s each", justify="right")
    table.add_column("")
    for r in results:
        shares = (f"{r.optimal:.1%}", f"{r.mean:+.2%}", f"{r.worst:+.2%}")
        row = (str(r.problems), *shares, seconds_text(r.seconds), r.note)
        table.add_row(r.part, r.search, *row)
    return table


def sketches_table(results: Sequence[TacclResult]) -> Table:
    """Return the table of TACCL's sketches."""
    table = _table("Sketches", "case", "sketch", "C", "alpha", "published")
    for name in ("finish, us", "bound", "gap", "nccl", "seconds", "published, s", "MB"):
        table.add_column(name, justify="right")
    for r in results:
        case = r.case
        table.add_row(
            f"{case.part}: {case.collective} {case.machine} {format_bytes(case.size_bytes)}",
            escape(f"{case.sketch or r.kept} {case.change}".strip()),
            str(r.chunks),
            case.alpha,
            "" if case.published_us is None else f"{case.published_us:,.7g}",
            f"{r.finish_us:,.7g}",
            f"{r.bound_us:,.7g}",
            f"{r.finish_us / r.bound_us - 1:.2%}" if r.bound_us else "",
            "" if r.nccl_us is None else f"{r.nccl_us:,.7g}",
            f"{r.seconds:.2f}",
            "" if case.published_s is None else f"{case.published_s:,.7g}",
            str(r.memory_mb),
        )
    return table


def certificates_table(results: Sequence[CertificateResult]) -> Table:
    """Return a table of certificate checks, and of the agreement with drat-trim."""
    table = _table("Certificates", "Folder", "Claims", "Seconds", "Proofs", "Lemmas", "drat-trim")
    for r in results:
        states = ", ".join(f"{count} {state}" for state, count in sorted(r.states.items()))
        lemmas = ["refused" if p.lemmas is None else str(p.lemmas) for p in r.proofs]
        agreements = Counter(_agreement(p) for p in r.proofs)
        second = ", ".join(f"{count} {word}" for word, count in sorted(agreements.items()))
        proofs = str(len(r.proofs) or "")
        table.add_row(
            escape(r.name), states, seconds_text(r.seconds), proofs, " ".join(lemmas), second
        )
    return table


def public_files_table(
    results: Sequence[PublicFileResult], searches: Sequence[Search] = ()
) -> Table:
    """Return a table of files read as listed, by reader, and of each file that differs."""
    words: dict[Verdict, str] = {"sat": "as listed", "unknown": "not laid down"}
    by_reader: dict[str, list[PublicFileResult]] = {}
    for r in results:
        by_reader.setdefault(r.file.reader, []).append(r)
    table = _table("Files of public repositories", "Reader or file", "Outcome", "Expected")
    for reader, reader_results in by_reader.items():
        verdicts = Counter(words.get(r.verdict, "[bold red]different[/]") for r in reader_results)
        verdict_text = ", ".join(f"{number} {word}" for word, number in verdicts.items())
        repositories = {r.file.repository for r in reader_results}
        table.add_row(
            escape(reader),
            verdict_text,
            f"{len(reader_results)} files of {len(repositories)} repositories",
        )
        for r in reader_results:
            if r.verdict != "sat":
                name = f"{r.file.repository} {r.file.commit[:12]} {r.file.path}"
                outcome = r.refusal or show_counts(r.counts) or words.get(r.verdict, "read")
                expected = r.file.refused or show_counts(r.file.counts)
                table.add_row(escape(f"  {name}"), escape(outcome), escape(expected))
    for search in searches:
        outcome = f"{search.found} readable files"
        table.add_row(escape(search.reader), outcome, f"{WANTED} wanted")
    return table


def _agreement(proof: ProofResult) -> str:
    if proof.agree is None:
        return "not asked"
    return "agree" if proof.agree else "[bold red]disagree[/]"


def _numbers(row: PaperRow) -> tuple[str, str, str]:
    return str(row.chunks), str(row.steps), str(row.rounds)


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(first, title=title, title_justify="left")
    for name in others:
        table.add_column(name, justify="right")
    return table


def collectives_table(results: Sequence[CollectiveResult]) -> Table:
    """Return a table of generated code and the MPI library: geometric means and some sizes."""
    table = Table(title="microseconds of a call, sccl / MPI (medians)")
    longest = max((r.sizes for r in results), key=len, default=())
    shown = [s.size_bytes for s in longest][::4]
    for name in ("MPI", "ranks", "collective", "speedup", "slowest"):
        table.add_column(name, justify="left" if name in {"MPI", "collective"} else "right")
    for size in shown:
        table.add_column(f"{size} B", justify="right")
    for r in results:
        by_size = {s.size_bytes: s for s in r.sizes}
        cells = [
            f"{by_size[n].sccl_us:.1f} / {by_size[n].mpi_us:.1f}" if n in by_size else ""
            for n in shown
        ]
        table.add_row(
            r.mpi, str(r.ranks), r.collective, f"{r.speedup:.2f}x", f"{r.slowest:.2f}x", *cells
        )
    return table


def generation_table(results: Sequence[GenerationResult]) -> Table:
    """Return a table of the times of code generation, in seconds."""
    table = Table(title="code generation")
    for name in ("bundle", "target", "sends", "kB", "seconds"):
        table.add_column(name, justify="left" if name in {"bundle", "target"} else "right")
    for r in results:
        table.add_row(r.bundle, r.target, str(r.sends), str(r.kilobytes), f"{r.seconds:.2f}")
    return table


def astra_table(results: Sequence[AstraResult]) -> Table:
    """Return a table of arrival times in ASTRA-sim and in our simulator, in nanoseconds."""
    numbers = ("ASTRA-sim", "ours", "rounded down", "difference", "ties")
    table = _table(
        "when the last message arrives, ns", "case", "machine", "network", "transfers", *numbers
    )
    for r in results:
        off = "never ends" if r.astra_ns is None else f"{r.rounded_down_ns - r.astra_ns:+d}"
        shown = f"[bold red]{off}[/]" if r.verdict != "sat" else off
        times = [str(r.astra_ns or ""), str(r.ours_ns), str(r.rounded_down_ns)]
        where = (escape(r.case), r.topology, str(r.network), str(r.transfers))
        table.add_row(*where, *times, shown, str(r.ties))
    return table


def exported_table(results: Sequence[ExportedResult]) -> Table:
    """Return a table of end times of exported plans in both simulators, in nanoseconds."""
    numbers = ("ASTRA-sim", "ours", "ASTRA-sim to ours")
    table = _table(
        "when the last rank ends, ns", "plan", "machine", "network", "chunk", "sends", *numbers
    )
    for r in results:
        off = "never ends" if r.astra_ns is None else f"{r.percent:+.2f}%"
        shown = f"[bold red]{off}[/]" if r.verdict != "sat" else off
        where = (escape(r.plan), r.topology, r.network, str(r.chunk_bytes), str(r.sends))
        table.add_row(*where, str(r.astra_ns or ""), str(r.ours_ns), shown)
    return table


def replayed_table(results: Sequence[StepResult]) -> Table:
    """Return a table of end times of an isolated iteration in both simulators, in microseconds."""
    numbers = ("period", "alone", "replayed", "by its own collectives")
    table = _table("training steps, us", "step", "ranks", "alike", *numbers)
    for r in results:
        ends = [
            f"{ns / 1000:.1f}" if ns else "never ends" for ns in (r.replayed_ns, r.simulated_ns)
        ]
        if r.verdict != "sat":
            ends[0] = f"[bold red]{ends[0]}[/]"
        ours = (f"{r.period_ns / 1000:.1f}", f"{r.alone_ns / 1000:.1f}")
        table.add_row(r.case, str(r.ranks), "yes" if r.alike else "no", *ours, *ends)
    return table


def fuzz_table(results: Sequence[FuzzResult]) -> Table:
    """Return a table of the outcomes of each reader's inputs."""
    numbers = ("inputs", "taken", "lines", "kept", "CPU s", "failures")
    table = _table("changed files by the million", "reader", *numbers)
    for r in results:
        failures = f"[bold red]{len(r.failures)}[/]" if r.failures else "0"
        counts = (r.inputs, r.accepted, r.lines, r.kept)
        table.add_row(r.reader, *map(str, counts), seconds_text(r.seconds), failures)
    return table


def incomplete_text(r: Incomplete) -> str:
    """Return a sentence about an algorithm that lacks a send."""
    ends = "never ends" if r.astra_ns is None else f"{r.astra_ns} ns"
    return escape(f"{r.case}: ASTRA-sim {ends}, ours {r.ours_ns} ns; the judge: {r.violation}")
