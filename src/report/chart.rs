//! Line charts as SVG, small enough to be read on a phone. Colours come from the page's style.

use super::html::escape;

/// One chart: a figure per round for each series.
pub(super) struct Chart<'a> {
    /// What the figures are.
    pub(super) title: &'a str,
    /// The lines.
    pub(super) series: Vec<Series>,
    /// A round worth a mark, and why.
    pub(super) mark: Option<(u64, String)>,
}

/// One line.
pub(super) struct Series {
    /// Its name in the legend.
    pub(super) name: String,
    /// Ascending by round.
    pub(super) points: Vec<Dot>,
}

/// One figure.
pub(super) struct Dot {
    /// Round.
    pub(super) round: u64,
    /// Figure; finite.
    pub(super) value: f64,
    /// JSON pointer of the figure in the report.
    pub(super) path: String,
}

impl Chart<'_> {
    /// The chart as an `<svg>` element.
    pub(super) fn svg(&self) -> String {
        let dots = || self.series.iter().flat_map(|series| &series.points);
        let last = dots().map(|dot| dot.round).max().unwrap_or(0).max(1);
        let values = || dots().map(|dot| dot.value);
        let scale = Scale::over(values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let area = Area { last, scale };

        let grid: String = area.scale.ticks().map(|tick| area.gridline(tick)).collect();
        let step = last.div_ceil(MOST_ROUND_LABELS).max(1);
        let rounds: Vec<String> = (0..=last)
            .filter(|round| round % step == 0)
            .map(|round| {
                format!(
                    r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{round}</text>"#,
                    area.x(round),
                    BOTTOM + 16.0
                )
            })
            .collect();
        let mark = self.mark.as_ref().map(|mark| area.mark(mark)).unwrap_or_default();
        let lines: String = self
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| area.line(index, series))
            .collect();
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title} by round" data-low="{low}" data-high="{high}" data-top="{TOP}" data-bottom="{BOTTOM}">{grid}{rounds}<text class="tick" x="{middle:.1}" y="{axis:.1}" text-anchor="middle">round (0 = before training)</text>{mark}{lines}</svg>"#,
            title = escape(self.title),
            rounds = rounds.concat(),
            low = area.scale.low,
            high = area.scale.high,
            middle = f64::midpoint(LEFT, RIGHT),
            axis = BOTTOM + 32.0,
        )
    }

    /// Names and looks of the lines, as HTML.
    pub(super) fn legend(&self) -> String {
        let keys: Vec<String> = self
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| {
                format!(
                    r#"<span class="key"><svg class="swatch" viewBox="0 0 28 12" aria-hidden="true"><line class="line c{colour}" x1="1" y1="6" x2="27" y2="6"/>{shape}</svg>{name}</span>"#,
                    colour = index % COLOURS,
                    shape = shape(index, 14.0, 6.0, "", ""),
                    name = escape(&series.name),
                )
            })
            .collect();
        format!(r#"<p class="legend">{}</p>"#, keys.concat())
    }
}

/// The drawing area and its scales.
struct Area {
    last: u64,
    scale: Scale,
}

impl Area {
    #[expect(clippy::cast_precision_loss, reason = "rounds are far below 2^52")]
    fn x(&self, round: u64) -> f64 {
        LEFT + INSET + (RIGHT - LEFT - 2.0 * INSET) * round as f64 / self.last as f64
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.scale.low) / (self.scale.high - self.scale.low);
        BOTTOM - (BOTTOM - TOP) * share
    }

    fn gridline(&self, tick: f64) -> String {
        let y = self.y(tick);
        let class = if tick == 0.0 { "zero" } else { "grid" };
        format!(
            r#"<line class="{class}" x1="{LEFT}" y1="{y:.1}" x2="{RIGHT}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 6.0,
            y + 4.0,
            self.scale.label(tick),
        )
    }

    fn mark(&self, (round, why): &(u64, String)) -> String {
        let x = self.x(*round);
        // The text stands on the side with more room.
        let (anchor, shift) = if x > f64::midpoint(LEFT, RIGHT) {
            ("end", -5.0)
        } else {
            ("start", 5.0)
        };
        format!(
            r#"<line class="mark" x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{BOTTOM}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            x + shift,
            TOP + 10.0,
            escape(why),
        )
    }

    fn line(&self, index: usize, series: &Series) -> String {
        let place = |dot: &Dot| (self.x(dot.round), self.y(dot.value));
        let corners: Vec<String> = series
            .points
            .iter()
            .map(place)
            .map(|(x, y)| format!("{x:.2},{y:.2}"))
            .collect();
        let shapes: String = series
            .points
            .iter()
            .map(|dot| {
                let (x, y) = place(dot);
                let data = format!(
                    r#" data-path="{}" data-value="{}" data-y="{y:.3}""#,
                    escape(&dot.path),
                    dot.value
                );
                let title = format!(
                    "<title>{}, round {}: {}</title>",
                    escape(&series.name),
                    dot.round,
                    dot.value
                );
                shape(index, x, y, &data, &title)
            })
            .collect();
        format!(
            r#"<polyline class="line c{}" points="{}"/>{shapes}"#,
            index % COLOURS,
            corners.join(" ")
        )
    }
}

/// A marker: another form for each series, for those who do not see the colours, and for print.
fn shape(index: usize, x: f64, y: f64, data: &str, title: &str) -> String {
    let class = index % COLOURS;
    let polygon = |corners: &[(f64, f64)]| {
        let corners: Vec<String> = corners
            .iter()
            .map(|(dx, dy)| format!("{:.2},{:.2}", x + dx, y + dy))
            .collect();
        format!(
            r#"<polygon class="dot c{class}" points="{}"{data}>{title}</polygon>"#,
            corners.join(" ")
        )
    };
    match index % 4 {
        0 => {
            format!(r#"<circle class="dot c{class}" cx="{x:.2}" cy="{y:.2}" r="3.5"{data}>{title}</circle>"#)
        }
        1 => polygon(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
        2 => polygon(&[(0.0, -4.5), (4.2, 3.2), (-4.2, 3.2)]),
        _ => polygon(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
    }
}

/// An axis from round number to round number.
struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// A scale that covers both, with at most [`MOST_TICKS`] steps.
    fn over(least: f64, most: f64) -> Self {
        let span = (most - least).max(1e-6);
        let rough = span / MOST_TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * (1.0 - 1e-9))
            .unwrap_or(10.0 * power);
        Self {
            low: (least / step).floor() * step,
            high: (most / step).ceil().max(1.0) * step,
            step,
        }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=32_u8)
            .map(|index| self.low + f64::from(index) * self.step)
            .take_while(|tick| *tick <= self.high + self.step / 2.0)
            .map(|tick| if tick.abs() < self.step / 1e3 { 0.0 } else { tick })
    }

    /// Decimals enough to tell the ticks apart.
    fn label(&self, tick: f64) -> String {
        let decimals = (0..=9_usize)
            .find(|decimals| {
                let shifted = self.step * 10_f64.powi(i32::try_from(*decimals).unwrap_or(0));
                shifted > 0.5 && (shifted - shifted.round()).abs() < 1e-6 * shifted
            })
            .unwrap_or(9);
        format!("{tick:.decimals$}")
    }
}

/// Lines with colours of their own in the page's style.
pub(super) const COLOURS: usize = 6;

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 372.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 196.0;
/// Room between the frame and the first and last points.
const INSET: f64 = 12.0;
const MOST_TICKS: f64 = 5.0;
const MOST_ROUND_LABELS: u64 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_cover_their_figures_in_round_steps() {
        for (least, most) in [
            (0.0, 0.61),
            (0.0, 3.7),
            (0.0, 1e-9),
            (0.0, 12_345.0),
            (-0.4, 0.3),
            (0.0, 0.25),
            (0.0, 1.0),
        ] {
            let scale = Scale::over(least, most);
            assert!(scale.low <= least && scale.high >= most, "{least} {most}");
            let ticks: Vec<f64> = scale.ticks().collect();
            assert!((2..=8).contains(&ticks.len()), "{least} {most}: {ticks:?}");
            assert!((ticks[0] - scale.low).abs() < scale.step / 100.0);
            assert!((ticks[ticks.len() - 1] - scale.high).abs() < scale.step / 100.0);
            let labels: std::collections::BTreeSet<String> =
                ticks.iter().map(|tick| scale.label(*tick)).collect();
            assert_eq!(labels.len(), ticks.len(), "{labels:?}");
        }
        let scale = Scale::over(0.0, 0.61);
        assert_eq!(
            scale.ticks().map(|tick| scale.label(tick)).collect::<Vec<_>>(),
            ["0.0", "0.2", "0.4", "0.6", "0.8"]
        );
    }

    #[test]
    fn dots_stand_where_their_figures_are() {
        let dot = |round, value| Dot {
            round,
            value,
            path: String::new(),
        };
        let svg = Chart {
            title: "x",
            series: vec![Series {
                name: "a".to_owned(),
                points: vec![dot(0, 0.8), dot(2, 0.0), dot(4, 0.4)],
            }],
            mark: None,
        }
        .svg();
        // The scale is 0 to 0.8 over y 196 to 12; the rounds 0 to 4 over x 56 to 360.
        for place in [
            r#"cx="56.00" cy="12.00""#,
            r#"cx="208.00" cy="196.00""#,
            r#"cx="360.00" cy="104.00""#,
        ] {
            assert!(svg.contains(place), "{place} in {svg}");
        }
    }

    #[test]
    fn nothing_to_draw_is_no_panic() {
        let svg = Chart {
            title: "x",
            series: Vec::new(),
            mark: Some((0, "why".to_owned())),
        }
        .svg();
        assert!(svg.ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }
}
