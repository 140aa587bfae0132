//! The crate's tests from outside, in one program: each links the crate only once.

mod adverse;
mod asymmetric;
mod goodput;
mod headers;
mod heavy;
mod hostile;
mod lan_messages;
mod link;
mod orphans;
mod quiet;
mod records;
mod recovery;
mod reload;
mod reordering;
mod resets;
mod reuse;
mod storage;
mod survival;
mod unpaired;
