//! The pictures, as SVG.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::*;

use super::catalog::Section;
use super::results::{Contest, Curve, Results};

/// The bar chart's name.
pub const RATIOS: &str = "ratios";

/// One colour for each peer, ours first; they differ in brightness, too.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x1b, 0x4f, 0x72),
    RGBColor(0xd3, 0x54, 0x00),
    RGBColor(0x27, 0xae, 0x60),
    RGBColor(0x8e, 0x44, 0xad),
    RGBColor(0x95, 0xa5, 0xa6),
];

const FONT: &str = "sans-serif";

/// Every picture: its name without the ending, and its text.
pub fn pictures(results: &Results) -> Vec<(String, String)> {
    let bars = bars(&results.contests);
    let mut pictures = Vec::new();
    if !bars.is_empty() {
        pictures.push((RATIOS.to_owned(), draw((900, bars_height(bars.len())), |area| ratios(area, &bars))));
    }
    for curve in &results.curves {
        if let Some(frame) = Frame::of(curve) {
            pictures.push((curve.name.clone(), draw((720, 420), |area| growth(area, curve, &frame))));
        }
    }
    pictures
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw(
    size: (u32, u32),
    picture: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Drawn<'static>,
) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| picture(&area)).and_then(|()| area.present());
        drawn.expect("writing to a string does not fail");
    }
    text
}

/// A load with the ratio of each peer: of the medians, with [`WORKERS`] workers.
struct Bars {
    load: String,
    /// The peer's colour, its name, and its ratio.
    ratios: Vec<(usize, String, f64)>,
}

/// The bars show the contests with two workers, against peers that can be beaten: limits have no bars.
const WORKERS: usize = 2;
const LIMITS: [&str; 3] = ["bare", "epoll", "plain calls"];

fn bars(contests: &[Contest]) -> Vec<Bars> {
    let mut peers: Vec<&str> = Vec::new();
    let mut bars = Vec::new();
    for contest in contests {
        if contest.workers != WORKERS || contest.section == Section::Mixed {
            continue;
        }
        let mut ratios = Vec::new();
        for side in contest.sides.iter().skip(1).filter(|side| !LIMITS.contains(&side.peer.as_str())) {
            let Some([_, ratio]) = contest.ratio(&side.peer) else {
                continue;
            };
            let index = peers.iter().position(|peer| *peer == side.peer).unwrap_or_else(|| {
                peers.push(&side.peer);
                peers.len() - 1
            });
            ratios.push((index, side.peer.clone(), ratio));
        }
        if !ratios.is_empty() {
            bars.push(Bars { load: contest.load.clone(), ratios });
        }
    }
    bars
}

const BAR: i32 = 7;
const GAP: i32 = 6;
const LEFT: i32 = 170;
const TOP: i32 = 56;
const BOTTOM: i32 = 28;
const WIDTH: i32 = 690;
/// How many bars a load has room for.
const BARS: i32 = 3;

fn bars_height(loads: usize) -> u32 {
    (TOP + BOTTOM + loads as i32 * (BARS * BAR + GAP)) as u32
}

/// The scale of the bars: ratios from the first to the second, logarithmically.
const RANGE: (f64, f64) = (0.25, 64.0);

/// Where a ratio is on the scale.
fn across(ratio: f64) -> i32 {
    let part = (ratio.clamp(RANGE.0, RANGE.1) / RANGE.0).ln() / (RANGE.1 / RANGE.0).ln();
    LEFT + (part * f64::from(WIDTH)) as i32
}

/// Bars to the right of ×1 are peers that need longer than we do.
fn ratios(area: &DrawingArea<SVGBackend<'_>, Shift>, bars: &[Bars]) -> Drawn<'static> {
    let text = |size: i32| (FONT, size).into_font().color(&BLACK);
    let bottom = bars_height(bars.len()) as i32 - BOTTOM;
    let title = "The peer's median over ours, two workers: to the right of ×1 we are better";
    area.draw(&Text::new(title, (12, 8), text(19)))?;
    let mut ratio = RANGE.0;
    while ratio <= RANGE.1 {
        let x = across(ratio);
        let colour = if ratio == 1.0 { BLACK } else { RGBColor(0xdd, 0xdd, 0xdd) };
        area.draw(&PathElement::new(vec![(x, TOP), (x, bottom)], colour))?;
        area.draw(&Text::new(format!("×{ratio}"), (x - 10, bottom + 6), text(13)))?;
        ratio *= 2.0;
    }

    let mut legend: Vec<(usize, &str)> = Vec::new();
    for (row, load) in bars.iter().enumerate() {
        let top = TOP + row as i32 * (BARS * BAR + GAP) + GAP / 2;
        area.draw(&Text::new(load.load.clone(), (12, top + BARS * BAR / 2 - 7), text(15)))?;
        for (index, (colour, peer, ratio)) in load.ratios.iter().enumerate() {
            let y = top + index as i32 * BAR;
            let corners = [(across(1.0), y), (across(*ratio), y + BAR - 1)];
            area.draw(&Rectangle::new(corners, colour_of(colour + 1).filled()))?;
            if !legend.iter().any(|(known, _)| known == colour) {
                legend.push((*colour, peer));
            }
        }
    }
    for (place, (colour, peer)) in legend.into_iter().enumerate() {
        let x = LEFT + place as i32 * 110;
        area.draw(&Rectangle::new([(x, 34), (x + 12, 44)], colour_of(colour + 1).filled()))?;
        area.draw(&Text::new(peer.to_owned(), (x + 18, 32), text(15)))?;
    }
    Ok(())
}

fn colour_of(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// What both axes of a curve must show.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    /// Nothing if there is no point that could be drawn.
    fn of(curve: &Curve) -> Option<Self> {
        let points =
            || curve.series.iter().flat_map(|(_, points)| points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
        let range = |pick: fn(&(f64, f64)) -> f64| {
            let least = points().map(pick).fold(f64::NAN, f64::min);
            let greatest = points().map(pick).fold(f64::NAN, f64::max);
            // With room on both sides, so that a single point has a range too.
            (least / 1.5, greatest * 1.5)
        };
        points().next()?;
        Some(Self { x: range(|point| point.0), y: range(|point| point.1) })
    }
}

fn growth(area: &DrawingArea<SVGBackend<'_>, Shift>, curve: &Curve, frame: &Frame) -> Drawn<'static> {
    let mut chart = ChartBuilder::on(area)
        .caption(&curve.title, (FONT, 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d((frame.x.0..frame.x.1).log_scale(), (frame.y.0..frame.y.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(&curve.axis)
        .y_desc("ns")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, (peer, points)) in curve.series.iter().enumerate() {
        let colour = colour_of(index);
        let points: Vec<_> = points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(peer)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 15))
        .draw()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::order::Metric;
    use crate::report::results::Side;

    #[test]
    fn every_ratio_has_a_bar_and_every_curve_a_picture() {
        let side = |peer: &str, time| Side {
            peer: peer.to_owned(),
            numbers: BTreeMap::from([(Metric::Best, vec![time]), (Metric::Time, vec![time])]),
        };
        let contest = |workers| Contest {
            load: "spawn".to_owned(),
            about: String::new(),
            section: Section::Tasks,
            workers,
            sides: vec![side("runtime", 50.0), side("tokio", 200.0), side("smol", 100.0), side("bare", 5.0)],
        };
        let curve = |points| Curve {
            name: "tasks".to_owned(),
            title: "Tasks".to_owned(),
            axis: "tasks".to_owned(),
            series: vec![("runtime".to_owned(), points)],
        };
        let results = Results {
            contests: vec![contest(1), contest(2)],
            curves: vec![curve(vec![(1e3, 50.0), (1e7, 60.0)]), curve(vec![])],
            ..Results::default()
        };

        let pictures = pictures(&results);
        let names: Vec<_> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [RATIOS, "tasks"]);
        let bars = &pictures[0].1;
        assert!(bars.starts_with("<svg") && bars.trim_end().ends_with("</svg>"));
        // One load with two workers and two peers; bare is none of them.
        assert!(bars.contains("tokio") && bars.contains("smol") && !bars.contains("bare"));
        assert_eq!(bars.matches("spawn").count(), 1);
        assert!(pictures[1].1.contains("runtime"));
    }

    #[test]
    fn a_bar_begins_at_one_and_stays_on_the_scale() {
        assert!(across(0.5) < across(1.0) && across(1.0) < across(4.0));
        assert_eq!(across(1000.0), LEFT + WIDTH);
        assert_eq!(across(0.0), LEFT);
    }
}
