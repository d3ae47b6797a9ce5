//! The page.

use std::fmt::Write;

use super::catalog::Section;
use super::order::Metric;
use super::plot::RATIOS;
use super::results::{Contest, Counts, Results, Side};
use crate::table::readable;

/// The whole page, in Markdown. Its pictures are in the same directory.
pub fn page(results: &Results) -> String {
    let mut page = String::new();
    head(&mut page, results);
    if has_ratios(results) {
        page += &format!("## All ratios\n\n![The peers' times over ours]({RATIOS}.svg)\n\n");
    }
    for section in Section::ALL {
        let contests: Vec<_> = results.contests.iter().filter(|contest| contest.section == section).collect();
        if !contests.is_empty() {
            show(&mut page, section, &contests);
        }
    }
    counts(&mut page, &results.counts);
    builds(&mut page, &results.builds);
    growth(&mut page, results);
    left_out(&mut page, results);
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Whether there is anything for the bar chart.
pub fn has_ratios(results: &Results) -> bool {
    results.contests.iter().any(|contest| {
        has_one_figure(contest.section)
            && contest.sides.iter().skip(1).any(|side| contest.ratio(&side.peer).is_some())
    })
}

/// Whether one figure of a load says how good a contestant is.
fn has_one_figure(section: Section) -> bool {
    section != Section::Mixed
}

fn head(page: &mut String, results: &Results) {
    page.push_str("# Beside its peers\n\n");
    page.push_str("Written by `cargo run --release -p benches --bin report`. Do not edit it.\n\n");
    if results.is_quick {
        page.push_str("**A quick run**, which says that everything works, and not much more.\n\n");
    }
    page.push_str("| | |\n|---|---|\n");
    for (name, value) in &results.head {
        row(page, [name.clone(), value.clone()]);
    }
    row(
        page,
        ["Rounds".to_owned(), format!("{} (fewer of `memory`, `mixed`, and of the curves)", results.rounds)],
    );
    let minutes = results.took.as_secs_f64() / 60.0;
    row(page, ["Took".to_owned(), format!("{minutes:.1} min")]);
    let others = format!("had {:.2} processors meanwhile, our clients included", results.others);
    row(page, ["Other programs".to_owned(), others]);
    page.push_str(
        "\n**How to read it.** Every peer with every load is a process of its own, with one allocator for \
         all. They take their turns one after the other, round by round, and a peer without a turn is \
         stopped; a machine that slows down slows down all. A cell has the minimum of all rounds, which says \
         what the code costs, and the median, which says what this machine made of it. A ratio is the peer's \
         figure over ours, so that above ×1 we are better, and is the number to quote: nanoseconds do not \
         travel.\n\n\
         `bare` is one thread without atomics, `epoll` an echo loop without a runtime, `plain calls` is no \
         pool at all. They are no peers but limits; those of one thread are measured once.\n\n",
    );
}

fn show(page: &mut String, section: Section, contests: &[&Contest]) {
    let (title, text) = match section {
        Section::Tasks => ("Tasks, channels, timers", "The time of one operation."),
        Section::Latency => (
            "Latency",
            "The wake-up's time to its task, and how late timers are. The figure of `remote_wake` is its \
             p50, that of `timer_fire` and `timer_fire_few` the CPU time of a timer with its task.",
        ),
        Section::Memory => ("Memory", "Resident bytes of a parked task, in a process that has nothing else."),
        Section::Servers => (
            "Servers",
            "The client is a process of its own on the same processors, and its loop is closed: each \
             connection waits for an answer before it asks again. The figure is the time of one request.",
        ),
        Section::ForkJoin => (
            "Fork-join",
            "The time of one operation. chili and forte count the calling thread as a worker, the others \
             only their own. `plain calls` is one thread: half of it is the limit of two.",
        ),
        Section::Mixed => (
            "A server that computes",
            "64 connections ask 200 times a second each, whether they are answered or not, and a latency \
             counts from when the request was due. Meanwhile the server sorts, or computes without end; the \
             part is that of what would be left to the computation if serving cost only its CPU time.",
        ),
    };
    _ = write!(page, "## {title}\n\n{text}\n\n");
    definitions(page, contests);
    if has_one_figure(section) {
        figures(page, contests);
    }
    match section {
        Section::Tasks => details(page, contests, &[Metric::Cpu, Metric::Sleeps]),
        Section::Latency => details(page, contests, &[Metric::P50, Metric::P99]),
        Section::Servers => {
            details(page, contests, &[Metric::Rate, Metric::P50, Metric::P99, Metric::P999, Metric::Cpu]);
        }
        Section::Mixed => details(
            page,
            contests,
            &[
                Metric::P50,
                Metric::P99,
                Metric::P999,
                Metric::JobRate,
                Metric::JobP50,
                Metric::JobP99,
                Metric::Cores,
                Metric::Share,
            ],
        ),
        Section::Memory | Section::ForkJoin => {}
    }
}

/// What each load does, once.
fn definitions(page: &mut String, contests: &[&Contest]) {
    let mut known = Vec::new();
    for contest in contests {
        if !known.contains(&&contest.load) {
            known.push(&contest.load);
            _ = writeln!(page, "- `{}`: {}", contest.load, contest.about);
        }
    }
    page.push('\n');
}

/// The names of all that take part in any of `contests`, ours first.
fn peers<'a>(contests: &[&'a Contest]) -> Vec<&'a str> {
    let mut peers = Vec::new();
    for side in contests.iter().flat_map(|contest| &contest.sides) {
        if !peers.contains(&side.peer.as_str()) {
            peers.push(&side.peer);
        }
    }
    peers
}

/// A row for each load and number of workers: the figure of each peer, and the ratios.
fn figures(page: &mut String, contests: &[&Contest]) {
    let peers = peers(contests);
    let Some((ours, others)) = peers.split_first() else {
        return;
    };
    let names = peers.iter().map(|peer| (*peer).to_owned());
    let ratios = others.iter().map(|peer| format!("{peer} / {ours}"));
    head_row(page, ["load", "workers"].map(str::to_owned).into_iter().chain(names).chain(ratios));
    for contest in contests {
        let figures = peers.iter().map(|peer| match contest.side(peer) {
            Some(side) => {
                let [least, middle] = [side.minimum(Metric::Best), side.median(Metric::Time)];
                let [least, middle] = [least, middle].map(|value| figure(contest.section, value));
                format!("{least}, {middle}")
            }
            None => NONE.to_owned(),
        });
        let ratios = others.iter().map(|peer| match contest.ratio(peer) {
            Some([least, middle]) => format!("×{least:.2}, **×{middle:.2}**"),
            None => NONE.to_owned(),
        });
        let name = [format!("`{}`", contest.load), contest.workers.to_string()];
        row(page, name.into_iter().chain(figures).chain(ratios));
    }
    page.push('\n');
}

/// Where there is nothing.
const NONE: &str = "–";

fn figure(section: Section, value: f64) -> String {
    match section {
        Section::Memory => format!("{value:.0} B"),
        _ => readable(value),
    }
}

/// A row for each load, number of workers and peer, with the medians of these metrics.
fn details(page: &mut String, contests: &[&Contest], metrics: &[Metric]) {
    let heads = metrics.iter().map(|metric| heading(*metric).to_owned());
    head_row(page, ["load", "workers", "peer"].map(str::to_owned).into_iter().chain(heads));
    for contest in contests {
        for side in &contest.sides {
            let values = metrics.iter().map(|metric| value(side, *metric));
            let name = [format!("`{}`", contest.load), contest.workers.to_string(), side.peer.clone()];
            row(page, name.into_iter().chain(values));
        }
    }
    page.push('\n');
}

fn heading(metric: Metric) -> &'static str {
    match metric {
        Metric::Best => "best",
        Metric::Time => "time",
        Metric::Cpu => "CPU time of an operation",
        Metric::Sleeps => "sleeps in 1000 operations",
        Metric::Rate => "requests/s",
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::P999 => "p99.9",
        Metric::JobRate => "computations/s",
        Metric::JobP50 => "their p50",
        Metric::JobP99 => "their p99",
        Metric::Cores => "processors used",
        Metric::Share => "part of what was left",
    }
}

fn value(side: &Side, metric: Metric) -> String {
    let value = side.median(metric);
    if !value.is_finite() {
        return NONE.to_owned();
    }
    match metric {
        Metric::Best | Metric::Time | Metric::Cpu => readable(value),
        Metric::P50 | Metric::P99 | Metric::P999 => readable(value * 1e3),
        Metric::JobP50 | Metric::JobP99 => readable(value * 1e6),
        Metric::Rate => format!("{value:.0}"),
        Metric::JobRate => format!("{value:.1}"),
        Metric::Sleeps | Metric::Cores | Metric::Share => format!("{value:.2}"),
    }
}

fn counts(page: &mut String, counts: &[Counts]) {
    let tables = [
        ("instructions/op, 1 worker", 0, 0),
        ("system calls in 1000 operations, 2 workers", 1, 2),
        ("wakes in 1000 operations, 2 workers", 2, 2),
    ];
    if counts.is_empty() {
        return;
    }
    page.push_str(
        "## What other tools count\n\nInstructions by callgrind, as the difference of two lengths: they \
         hardly depend on the machine. System calls and wakes of threads by the kernel's trace points; they \
         depend on what falls asleep when, and differ between runs.\n\n",
    );
    for (title, index, decimals) in tables {
        let has_any = |counts: &&Counts| counts.peers.iter().any(|(_, values)| values[index].is_finite());
        let counts: Vec<_> = counts.iter().filter(has_any).collect();
        let mut peers: Vec<&str> = Vec::new();
        for (peer, _) in counts.iter().flat_map(|counts| &counts.peers) {
            if !peers.contains(&peer.as_str()) {
                peers.push(peer);
            }
        }
        if peers.is_empty() {
            continue;
        }
        head_row(page, std::iter::once(title.to_owned()).chain(peers.iter().map(|peer| (*peer).to_owned())));
        for counts in counts {
            let ours = counts.peers[0].1[index];
            let cells = peers.iter().map(|peer| {
                match counts.peers.iter().find(|(name, _)| name == peer).map(|(_, values)| values[index]) {
                    Some(value) if value.is_finite() && index == 0 && value.to_bits() != ours.to_bits() => {
                        format!("{value:.0} (×{:.2})", value / ours)
                    }
                    Some(value) if value.is_finite() => format!("{value:.decimals$}"),
                    _ => NONE.to_owned(),
                }
            });
            row(page, std::iter::once(format!("`{}`", counts.load)).chain(cells));
        }
        page.push('\n');
    }
}

fn builds(page: &mut String, builds: &[(String, [f64; 2])]) {
    let Some((_, ours)) = builds.first() else { return };
    page.push_str(
        "## Building\n\nCPU seconds of a build from nothing: a program that says hello, and all that it \
         depends on, with the feature `full`. One build each.\n\n",
    );
    head_row(page, ["profile".to_owned()].into_iter().chain(builds.iter().map(|(peer, _)| peer.clone())));
    for (index, profile) in ["debug", "release"].into_iter().enumerate() {
        let cells = builds.iter().enumerate().map(|(peer, (_, seconds))| match peer {
            0 => format!("{:.1}", seconds[index]),
            _ => format!("{:.1} (×{:.2})", seconds[index], seconds[index] / ours[index]),
        });
        row(page, std::iter::once(profile.to_owned()).chain(cells));
    }
    page.push('\n');
}

/// Up to which factor a curve counts as flat.
const FLAT: f64 = 2.0;

fn growth(page: &mut String, results: &Results) {
    if results.curves.is_empty() {
        return;
    }
    page.push_str(
        "## Growth\n\nMedians; both axes are logarithmic, so that a cost that does not grow is a level line. \
         Two workers, where it is not their number that grows.\n\n",
    );
    for curve in &results.curves {
        _ = write!(page, "![{}]({}.svg)\n\n", curve.title, curve.name);
        let points: Vec<f64> =
            curve.series.iter().flat_map(|(_, points)| points).map(|point| point.0).collect();
        let mut points: Vec<u64> = points.into_iter().map(|point| point as u64).collect();
        points.sort_unstable();
        points.dedup();
        head_row(page, std::iter::once(curve.axis.clone()).chain(points.iter().map(u64::to_string)));
        for (peer, costs) in &curve.series {
            let cells = points.iter().map(|point| {
                let cost = costs.iter().find(|(x, _)| *x as u64 == *point);
                cost.map_or(NONE.to_owned(), |(_, cost)| readable(*cost))
            });
            row(page, std::iter::once(peer.clone()).chain(cells));
        }
        let spread = curve.spread();
        if spread.is_finite() {
            let is = if spread <= FLAT { "flat" } else { "not flat" };
            _ = write!(page, "\nOur greatest cost is {spread:.1} times our least: {is}.\n\n");
        }
    }
}

fn left_out(page: &mut String, results: &Results) {
    if results.left_out.is_empty() {
        return;
    }
    page.push_str("## What is missing, and why\n\n");
    for reason in &results.left_out {
        // What a tool says may have many lines.
        _ = writeln!(page, "- {}", reason.lines().next().unwrap_or_default());
    }
}

fn head_row(page: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<_> = cells.collect();
    let columns = cells.len();
    row(page, cells);
    _ = writeln!(page, "|{}", "---|".repeat(columns));
}

fn row(page: &mut String, cells: impl IntoIterator<Item = String>) {
    page.push('|');
    for cell in cells {
        _ = write!(page, " {cell} |");
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::results::Curve;

    fn side(peer: &str, best: f64, times: &[f64]) -> Side {
        let numbers = BTreeMap::from([
            (Metric::Best, vec![best, best + 50.0]),
            (Metric::Time, times.to_vec()),
            (Metric::P99, vec![1500.0]),
        ]);
        Side { peer: peer.to_owned(), numbers }
    }

    fn contest(section: Section, load: &str, sides: Vec<Side>) -> Contest {
        Contest { load: load.to_owned(), about: "something".to_owned(), section, workers: 2, sides }
    }

    fn results() -> Results {
        Results {
            head: vec![("Processor".to_owned(), "a fast one".to_owned())],
            rounds: 7,
            contests: vec![
                contest(
                    Section::Tasks,
                    "spawn",
                    vec![side("runtime", 40.0, &[60.0, 50.0, 70.0]), side("tokio", 200.0, &[240.0])],
                ),
                contest(
                    Section::Memory,
                    "bytes",
                    vec![side("runtime", 128.0, &[128.0]), side("tokio", 320.0, &[320.0])],
                ),
                contest(Section::Mixed, "both", vec![side("runtime", 1.0, &[1.0])]),
            ],
            counts: vec![Counts {
                load: "spawn".to_owned(),
                peers: vec![
                    ("runtime".to_owned(), [170.0, 0.25, f64::NAN]),
                    ("tokio".to_owned(), [1700.0, 4.0, f64::NAN]),
                ],
            }],
            curves: vec![Curve {
                name: "tasks".to_owned(),
                title: "Tasks".to_owned(),
                axis: "tasks".to_owned(),
                series: vec![
                    ("runtime".to_owned(), vec![(1e3, 50.0), (1e7, 150.0)]),
                    ("tokio".to_owned(), vec![(1e3, 200.0)]),
                ],
            }],
            left_out: vec!["Instructions: no tool counts.\nbecause".to_owned()],
            ..Results::default()
        }
    }

    #[test]
    fn the_page_has_figures_and_ratios() {
        let page = page(&results());
        for line in [
            "| Processor | a fast one |",
            "| Rounds | 7 (fewer of `memory`, `mixed`, and of the curves) |",
            "| load | workers | runtime | tokio | tokio / runtime |",
            "|---|---|---|---|---|",
            "| `spawn` | 2 | 40.0 ns, 60.0 ns | 200 ns, 240 ns | ×5.00, **×4.00** |",
            "| `bytes` | 2 | 128 B, 128 B | 320 B, 320 B | ×2.50, **×2.50** |",
            "- `spawn`: something",
            "| `both` | 2 | runtime | – | 1.50 ms | – | – | – | – | – | – |",
            "| `spawn` | 170 | 1700 (×10.00) |",
            "| `spawn` | 0.25 | 4.00 |",
            "| tasks | 1000 | 10000000 |",
            "| tokio | 200 ns | – |",
            "Our greatest cost is 3.0 times our least: not flat.",
            "- Instructions: no tool counts.",
        ] {
            assert!(page.lines().any(|other| other == line), "{line:?} is not in\n{page}");
        }
        // No contestant counted wakes, so there is no table of them.
        assert!(!page.contains("| wakes in"));
        assert!(page.ends_with("counts.\n"));
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_head() {
        let page = page(&results());
        let mut columns = None;
        for line in page.lines() {
            let cells = line.starts_with('|').then(|| line.matches('|').count());
            if let (Some(cells), Some(columns)) = (cells, columns) {
                assert_eq!(cells, columns, "{line}");
            }
            columns = cells;
        }
    }

    #[test]
    fn a_page_without_results_is_a_page() {
        let page = page(&Results::default());
        assert!(page.starts_with("# Beside its peers"));
        assert!(!page.contains("NaN") && !page.contains(".svg"));
    }
}
