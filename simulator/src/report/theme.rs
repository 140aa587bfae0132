//! How each scheme looks, in every plot and table, by day and by night.
//!
//! Plots are drawn in the colours of the light theme; a style sheet, the same
//! in a report and in a plot by itself, gives the dark ones and the dashes. It
//! knows a scheme's line by its colour, which is why no two may be alike.

use std::fmt::Write;

use plotters::style::RGBColor;

use crate::scheme::Scheme;

/// How a scheme looks.
pub struct Look {
    /// On a light ground.
    pub light: RGBColor,
    /// On a dark ground.
    dark: RGBColor,
    /// Dashes of its lines in the pixels drawn, as in SVG; empty: solid.
    dashes: &'static str,
    /// Width of its lines in the pixels shown.
    pub width: u32,
    /// The marker of its points.
    pub marker: Marker,
}

/// The marker of a point.
#[derive(Clone, Copy)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ◆
    Diamond,
    /// ▲
    Up,
    /// ▼
    Down,
}

/// Text and axes on a light ground.
pub const INK: RGBColor = RGBColor(0x24, 0x29, 0x2F);
/// Lines of the grid on a light ground.
pub const GRID: RGBColor = RGBColor(0xD8, 0xDE, 0xE4);
/// Their counterparts, and the grounds.
const DARK_INK: RGBColor = RGBColor(0xD8, 0xDE, 0xE6);
const DARK_GRID: RGBColor = RGBColor(0x3A, 0x42, 0x4C);
/// The background of a plot that stands by itself.
const GROUND: (&str, &str) = ("#ffffff", "#161b22");

/// How `scheme` looks. Most hues are those of Okabe and Ito's palette, which
/// people with any kind of colour vision can tell apart; where ten are too many
/// for that, dashes and markers help.
pub const fn look(scheme: Scheme) -> Look {
    use Marker::{Circle, Diamond, Down, Square, Up};
    let (light, dark, dashes, width, marker) = match scheme {
        Scheme::Lossless => ((0x6E, 0x77, 0x81), (0x9D, 0xA7, 0xB3), "3 7", 2, Circle),
        Scheme::Gbn => ((0xD5, 0x5E, 0x00), (0xFF, 0x8B, 0x3D), "", 2, Square),
        Scheme::GbnReNak => ((0xE6, 0x9F, 0x00), (0xF7, 0xC2, 0x4C), "14 8", 2, Diamond),
        Scheme::Irn => ((0xCC, 0x79, 0xA7), (0xF0, 0xA8, 0xCF), "", 2, Up),
        Scheme::Slr => ((0x88, 0x22, 0x55), (0xD0, 0x62, 0x9A), "7 6", 2, Down),
        Scheme::NetRt => ((0x3B, 0x3B, 0x3B), (0xF4, 0xF4, 0xF4), "18 6 4 6", 2, Square),
        Scheme::Lr2Paper => ((0x56, 0xB4, 0xE9), (0x8F, 0xD3, 0xFA), "14 8", 2, Diamond),
        Scheme::Lr2 => ((0x00, 0x9E, 0x73), (0x2F, 0xCC, 0x9B), "", 3, Up),
        Scheme::Cached => ((0x00, 0x72, 0xB2), (0x4C, 0xA8, 0xE8), "", 3, Circle),
        Scheme::Auto => ((0x33, 0x3F, 0x9E), (0x8C, 0x96, 0xF0), "10 4", 3, Square),
    };
    Look {
        light: RGBColor(light.0, light.1, light.2),
        dark: RGBColor(dark.0, dark.1, dark.2),
        dashes,
        width,
        marker,
    }
}

/// A scheme's method, in a sentence.
pub const fn about(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Lossless => "The same hosts on a link that loses nothing: the best there can be.",
        Scheme::Gbn => {
            "Go-back-N between the RNICs, one NAK per gap: what RoCE does without any help."
        }
        Scheme::GbnReNak => {
            "Go-back-N with a NAK every few microseconds while a gap is open, as network \
             simulators have it."
        }
        Scheme::Irn => "Selective repeat in the RNIC, as IRN has it.",
        Scheme::Slr => {
            "A switch near the sender reports loss early and drops what the receiver would drop."
        }
        Scheme::NetRt => "Switches that resend from a bounded buffer in the network.",
        Scheme::Lr2Paper => "LR2 as published: small pools, no second report of a loss.",
        Scheme::Lr2 => "LR2 Gateway, recovery = lr2: the source resends, the gateway filters.",
        Scheme::Cached => "LR2 Gateway, recovery = cached: the gateway resends from its own cache.",
        Scheme::Auto => {
            "LR2 Gateway, recovery = auto: from the cache, and by the source where it is not kept."
        }
    }
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
    for scheme in Scheme::ALL {
        let Look { light, dark: by_night, dashes, .. } = look(scheme);
        if !dashes.is_empty() {
            let colour = hex(light);
            // Into a String nothing can fail.
            let _ = writeln!(
                css,
                "svg.plot polyline[stroke=\"{colour}\"]{{stroke-dasharray:{dashes}}}"
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
    let rule = |of: fn(Look) -> RGBColor| -> String {
        let rule = |scheme| format!(".{}{{background:{}}}\n", class(scheme), hex(of(look(scheme))));
        Scheme::ALL.map(rule).concat()
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
        let mut colours: Vec<String> = Scheme::ALL.map(|scheme| hex(look(scheme).light)).into();
        colours.extend([hex(INK), hex(GRID)]);
        let all = colours.len();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), all);
    }

    #[test]
    fn the_style_sheet_knows_every_scheme() {
        let css = plot_css();
        for scheme in Scheme::ALL {
            let Look { light, dark, .. } = look(scheme);
            let rule = format!("[stroke=\"{}\"]{{stroke:{}}}", hex(light), hex(dark));
            assert!(css.contains(&rule), "{}", scheme.name());
        }
    }
}
