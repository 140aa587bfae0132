//! What happened to the RoCEv2 flows of a capture: which packets were missing and for how long, what was sent again and why,
//! what that cost, and what LR2 would have saved.
//!
//! [`Analysis`] takes [`Record`]s in the order of their times and gives a [`Report`]; it reads no file and no clock. Its memory
//! is bounded, however long the capture. [`capture::read`] reads pcap and pcapng files; [`text`] and [`html`] write a report.

pub mod capture;
pub mod html;
pub mod text;

mod analysis;
mod copies;
mod counts;
mod outer;
mod peel;
mod reads;
mod report;
mod requests;
mod stream;
mod timeline;
mod warnings;
mod window;

pub use analysis::{Analysis, Record, Settings, Totals};
pub use copies::Copied;
pub use counts::{RequestCounts, Resends};
pub use outer::Encapsulated;
pub use peel::Link;
pub use reads::ReadCounts;
pub use report::{FlowReport, Report, Saved};
pub use stream::ResponseCounts;
pub use timeline::{Bin, Timeline};
pub use tunnel::encapsulation::Marks;
pub use warnings::warnings;
