//! How each scheme looks, in every plot and table, by day and by night.
//!
//! Plots are drawn in the colours of the light theme; a style sheet, the same
//! in a report and in a plot by itself, gives the dark ones and the dashes. It
//! selects a scheme's line by its colour, so no two schemes have the same.

use std::fmt::Write;

use plotters::style::RGBColor;

use crate::scheme::Scheme;
use crate::schemes::{self, Look, profile};

/// Text and axes on a light ground.
pub const INK: RGBColor = RGBColor(0x24, 0x29, 0x2F);
/// Lines of the grid on a light ground.
pub const GRID: RGBColor = RGBColor(0xD8, 0xDE, 0xE4);
/// Their counterparts, and the grounds.
const DARK_INK: RGBColor = RGBColor(0xD8, 0xDE, 0xE6);
const DARK_GRID: RGBColor = RGBColor(0x3A, 0x42, 0x4C);
/// The background of a plot that stands by itself.
const GROUND: (&str, &str) = ("#ffffff", "#161b22");

/// A colour of a [`Look`](crate::schemes::Look).
pub const fn colour(rgb: u32) -> RGBColor {
    let [_, r, g, b] = rgb.to_be_bytes();
    RGBColor(r, g, b)
}

/// `#RRGGBB`, as plots have it.
pub fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// The style sheet of plots.
pub fn plot_css() -> String {
    let mut css = "svg.plot text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\
                   \"DejaVu Sans\",sans-serif}\nsvg.plot polyline{stroke-linejoin:round}\n"
        .to_owned();
    let mut dark = recolour(INK, DARK_INK) + &recolour(GRID, DARK_GRID);
    for scheme in schemes::all() {
        let look = profile(scheme).look;
        let (light, by_night) = (colour(look.light), colour(look.dark));
        if !look.dashes.is_empty() {
            let colour = hex(light);
            // Into a String nothing can fail.
            let _ = writeln!(
                css,
                "svg.plot polyline[stroke=\"{colour}\"]{{stroke-dasharray:{}}}",
                look.dashes
            );
        }
        dark += &recolour(light, by_night);
    }
    format!(
        "{css}svg.plot .ground{{fill:{}}}\n@media(prefers-color-scheme:dark){{\n{dark}\
         svg.plot .ground{{fill:{}}}\n}}\n",
        GROUND.0, GROUND.1
    )
}

/// The class of elements that have a scheme's colour outside of plots.
pub fn class(scheme: Scheme) -> String {
    format!("c-{}", scheme.name())
}

/// The style sheet of these classes.
pub fn swatch_css() -> String {
    let rule = |of: fn(Look) -> u32| -> String {
        let hex = |scheme: Scheme| hex(colour(of(profile(scheme).look)));
        let rule = |scheme| format!(".{}{{background:{}}}\n", class(scheme), hex(scheme));
        schemes::all().into_iter().map(rule).collect()
    };
    let (light, dark) = (rule(|look| look.light), rule(|look| look.dark));
    format!("{light}@media(prefers-color-scheme:dark){{\n{dark}}}\n")
}

fn recolour(from: RGBColor, to: RGBColor) -> String {
    let (from, to) = (hex(from), hex(to));
    format!(
        "svg.plot [stroke=\"{from}\"]{{stroke:{to}}}\nsvg.plot [fill=\"{from}\"]{{fill:{to}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_things_have_the_same_colour() {
        let light = |scheme: Scheme| hex(colour(profile(scheme).look.light));
        let all = Scheme::ALL.into_iter().chain([Scheme::CONWEAVE]);
        let mut colours: Vec<String> = all.map(light).collect();
        colours.extend([hex(INK), hex(GRID)]);
        let all = colours.len();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), all);
    }

    #[test]
    fn the_style_sheet_knows_every_scheme() {
        let css = plot_css();
        for scheme in Scheme::ALL.into_iter().chain([Scheme::CONWEAVE]) {
            let [light, dark] = [|look: Look| look.light, |look: Look| look.dark]
                .map(|of| hex(colour(of(profile(scheme).look))));
            let rule = format!("[stroke=\"{light}\"]{{stroke:{dark}}}");
            assert!(css.contains(&rule), "{}", scheme.name());
        }
    }
}
