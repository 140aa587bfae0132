//! The crate's tests from outside, in one program: each links the crate only once.

mod adverse;
mod asymmetric;
mod goodput;
mod headers;
mod heavy;
mod hostile;
mod incarnations;
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
mod slow_host;
mod storage;
mod survival;
mod tunnel_silence;
mod unpaired;
