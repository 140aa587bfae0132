//! A changed configuration file, for a gateway that runs: what can be applied between two bursts, and what needs a restart.

use std::fmt;

use common::control::Keys;
use datapath::Settings;
use switch::{FlowName, IpNet};

use crate::config::{self, Config, Pairs, Pool};
use crate::shares::{keys, settings};

/// A change that a worker applies between two bursts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The keys of control messages.
    Keys(Keys),
    /// Destinations that have a gateway in front of them.
    RemotePrefixes(Vec<IpNet>),
    /// All settings of the datapath: how losses are repaired, by which timers, the pools, and the choice of lanes.
    Settings(Box<Settings>),
    /// Whether a flow is protected. It is no part of the configuration.
    Protection(FlowName, bool),
}

/// What a changed file changes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Applied {
    /// For the workers.
    pub changes: Vec<Change>,
    /// The keys of the configuration whose values are others.
    pub names: Vec<String>,
}

/// Why nothing is changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Keys that need a restart.
    Restart(Vec<String>),
    /// The pools don't fit into the mbufs of the start: one line.
    Pools(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart(names) => write!(f, "a restart is needed for {}", names.join(", ")),
            Self::Pools(why) => f.write_str(why),
        }
    }
}

/// The changes of each pair of ports, of which each has reserved some mbufs at its start.
///
/// # Errors
/// As [`changes`], with the pairs concerned. If the file has other pairs than before, the key `pair` needs a restart.
pub fn changes_of_all(
    running: &Pairs,
    new: &Pairs,
    reserved: &[Pool],
) -> Result<Vec<Applied>, String> {
    if !running.iter().map(|config| &config.pair).eq(new.iter().map(|config| &config.pair)) {
        return Err(Refused::Restart(vec!["pair".to_owned()]).to_string());
    }
    let (mut all, mut restart, mut pools) = (Vec::new(), Vec::new(), Vec::new());
    for ((old, new), reserved) in running.iter().zip(new.iter()).zip(reserved) {
        let mut names = Vec::new();
        match changes(old, new, reserved) {
            Ok(applied) => all.push(applied),
            Err(Refused::Restart(keys)) => names = keys,
            Err(Refused::Pools(why)) => pools.push(match new.pair.label() {
                Some(name) => format!("pair {name}: {why}"),
                None => why,
            }),
        }
        restart.push(names);
    }
    let names = of_all(running, &restart);
    if !names.is_empty() {
        pools.insert(0, Refused::Restart(names).to_string());
    }
    if pools.is_empty() { Ok(all) } else { Err(pools.join("\n")) }
}

/// The keys that have changed.
pub fn names_of_all(running: &Pairs, applied: &[Applied]) -> Vec<String> {
    let names: Vec<_> = applied.iter().map(|applied| applied.names.clone()).collect();
    of_all(running, &names)
}

/// The names of keys: as they are if all pairs have them, otherwise with the section of the pair.
fn of_all(pairs: &Pairs, each: &[Vec<String>]) -> Vec<String> {
    let mut all = Vec::new();
    for (config, names) in pairs.iter().zip(each) {
        for name in names {
            let is_common = each.iter().all(|other| other.contains(name));
            let name = if is_common { name.clone() } else { config.pair.prefix() + name };
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    all
}

/// Keys that the number of mbufs follows from, unless the file has it.
const POOLS: [&str; 4] =
    ["recovery.mode", "recovery.resend_cache", "recovery.reorder_pool", "recovery.backup_pool"];

/// The changes from one configuration to another one, of a gateway that has reserved `reserved` at its start.
///
/// # Errors
/// What can't be applied; the caller then applies nothing.
pub fn changes(running: &Config, new: &Config, reserved: &Pool) -> Result<Applied, Refused> {
    let mut differences = config::differences(running, new);
    let is_pool = |name: &str| POOLS.contains(&name);
    if differences.iter().any(|it| is_pool(&it.name)) {
        differences.retain(|it| it.name != "pool.mbufs");
    }
    let restart = differences.iter().filter(|it| it.applied == config::Applied::Start);
    let restart: Vec<_> = restart.map(|it| it.name.clone()).collect();
    if !restart.is_empty() {
        return Err(Refused::Restart(restart));
    }
    let mut names: Vec<_> = differences.into_iter().map(|it| it.name).collect();
    let pools: Vec<_> = names.iter().map(String::as_str).filter(|name| is_pool(name)).collect();
    if !pools.is_empty() {
        fits(&pools, new, reserved).map_err(Refused::Pools)?;
    }
    let mut changes = Vec::new();
    if running.peer.keying != new.peer.keying {
        changes.push(Change::Keys(keys(new)));
        if !names.iter().any(|name| name.ends_with("key_file")) {
            // Another content of the same file.
            names.push("peer.key_file".to_owned());
        }
    }
    if running.peer.remote_prefixes != new.peer.remote_prefixes {
        changes.push(Change::RemotePrefixes(new.peer.remote_prefixes.clone()));
    }
    if names.iter().any(|name| !name.starts_with("peer.")) {
        changes.push(Change::Settings(Box::new(settings(new))));
    }
    Ok(Applied { changes, names })
}

/// Whether the pools of `new`, of which some keys have changed, fit into the mbufs that were reserved at the start.
fn fits(changed: &[&str], new: &Config, reserved: &Pool) -> Result<(), String> {
    if new.pool.mbufs <= reserved.mbufs {
        return Ok(());
    }
    Err(format!(
        "a restart is needed for {}: the pools take {} mbufs, and {} were reserved for them at the start; make them smaller, or restart",
        changed.join(", "),
        new.pool.holdable(),
        reserved.holdable()
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tunnel::spray::Policy;

    use super::*;
    use crate::config::tests::{good, lab};

    fn tunnel(more: &str) -> Config {
        good(&lab("").replace("[wan]\n", &format!("[wan]\ntunnel = \"ethernet\"\n{more}")))
    }

    fn changed(running: &Config, new: &Config) -> Result<Vec<Change>, String> {
        let applied = changes(running, new, &running.pool);
        applied.map(|applied| applied.changes).map_err(|why| why.to_string())
    }

    #[test]
    fn what_can_be_changed_is_and_the_rest_is_named() {
        let running = tunnel("");
        assert_eq!(changes(&running, &tunnel(""), &running.pool), Ok(Applied::default()));
        let both = "spray = \"reps\"\nresend_copies = 1\n";
        let new = tunnel(both);
        assert_eq!((new.tunnel.spray, new.tunnel.resend_copies), (Policy::Reps, 1));
        let expected = Change::Settings(Box::new(settings(&new)));
        assert_eq!(changed(&running, &new), Ok(vec![expected]));
        let refused = changed(&running, &tunnel("spray = \"reps\"\nrx_desc = 512\n"));
        // The pool follows from it.
        assert_eq!(refused, Err("a restart is needed for wan.rx_desc, pool.mbufs".to_owned()));
        let refused = changed(&running, &good(&lab("")));
        assert!(refused.is_err_and(|why| why.contains("wan.tunnel")));
        let running = good(&lab(""));
        let mut other = running.clone();
        other.peer.remote_prefixes = vec!["10.2.0.0/16".parse().unwrap()];
        let prefixes = other.peer.remote_prefixes.clone();
        assert_eq!(changed(&running, &other), Ok(vec![Change::RemotePrefixes(prefixes)]));
    }

    /// Timers and pools: what each configuration takes over while it works, each key alone.
    const LINES: [&str; 16] = [
        "[recovery]\nrtt_guess = \"77ms\"",
        "[recovery]\ntail_timeout = \"7ms\"",
        "[recovery]\nstatus_interval = \"7ms\"",
        "[recovery]\npeer_timeout = \"7s\"",
        "[recovery]\ngive_up = \"7s\"",
        "[recovery]\nt_out = \"7ms\"",
        "[recovery]\nt_out_min = \"7ms\"",
        "[recovery]\ntolerance = \"fixed\"",
        "[recovery]\ntolerance_depth = 77",
        "[recovery]\ntolerance_wait = \"77us\"",
        "[recovery]\ntolerance_stall = \"770us\"",
        "[recovery]\nresend_cache = \"32MiB\"",
        "[recovery]\nreorder_pool = \"32MiB\"",
        "[recovery]\nbackup_pool = \"12MiB\"",
        "[congestion]\ncnp_interval = \"70us\"",
        "[congestion]\ncnp = \"off\"",
    ];

    /// The key of a line.
    fn name(line: &str) -> String {
        let (section, rest) = line.split_once('\n').unwrap();
        let key = rest.split(' ').next().unwrap();
        format!("{}.{key}", section.trim_matches(['[', ']']))
    }

    /// A row of the table that is not applied at the start has a line here, or a test of its own.
    #[test]
    fn every_key_that_is_applied_while_running_is_tried() {
        let own = ["recovery.mode", "wan.spray", "wan.resend_copies"];
        let peer = ["peer.key_file", "peer.previous_key_file", "peer.remote_prefixes"];
        let lines = LINES.iter().map(|line| name(line));
        let tried: BTreeSet<_> = lines.chain(own.into_iter().chain(peer).map(Into::into)).collect();
        assert_eq!(tried, config::values::applied_running().map(str::to_owned).collect());
    }

    fn is_taken_over(running: &Config, new: &Config, line: &str) {
        let applied = changes(running, new, &running.pool).expect(line);
        assert_eq!(applied.names, [name(line)], "{line}");
        assert_eq!(applied.changes, [Change::Settings(Box::new(settings(new)))], "{line}");
        // And back.
        assert!(changes(new, running, &running.pool).is_ok(), "{line}");
    }

    // R-SET-1, R-SET-2, R-SET-3
    #[test]
    fn modes_timers_and_pools_are_taken_over() {
        let running = good(&lab(""));
        let modes = ["[recovery]\nmode = \"lr2\"", "[recovery]\nmode = \"off\""];
        for line in modes.into_iter().chain(LINES) {
            is_taken_over(&running, &good(&lab(&format!("{line}\n"))), line);
        }
        for line in ["[recovery]\npacing = false", "[recovery]\nlocal_retries = 1"] {
            let new = good(&lab(&format!("{line}\n")));
            assert!(changed(&running, &new).is_err_and(|why| why.contains("restart")), "{line}");
        }
    }

    // R-TUN-60
    #[test]
    fn a_tunnel_takes_over_timers_and_pools() {
        for mode in ["ethernet", "udp\"\naddress = \"192.0.2.1/29\"\npeer = \"192.0.2.2"] {
            for lan in ["off", "on", "auto"] {
                let config = |line: &str| {
                    let wan = format!("[wan]\nmtu = 9100\ntunnel = \"{mode}\"\n");
                    let line = line.strip_prefix("[recovery]\n").unwrap_or(line);
                    let more = format!("[recovery]\nlan = \"{lan}\"\n{line}\n");
                    good(&lab(&more).replace("[wan]\n", &wan))
                };
                let running = config("");
                for line in LINES {
                    is_taken_over(&running, &config(line), line);
                }
            }
        }
        // The repair of the LANs is told to the peer, and has its memory from the start.
        let on = tunnel("");
        let off = good(
            &lab("[recovery]\nlan = \"off\"\n")
                .replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n"),
        );
        for (old, new) in [(&on, &off), (&off, &on)] {
            let why = changed(old, new).unwrap_err();
            assert!(why.starts_with("a restart is needed for recovery.lan"), "{why}");
        }
    }

    /// A quarter of the reordering pool is for the repair of the LANs.
    // R-TUN-60
    #[test]
    fn the_pools_of_a_tunnel_are_those_of_a_start() {
        let pools = |cache: u32, reorder: u32| {
            let more = format!(
                "[eal]\nmemory = \"4GiB\"\n[recovery]\nresend_cache = \"{cache}MiB\"\nreorder_pool = \"{reorder}MiB\"\n"
            );
            good(&lab(&more).replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n"))
        };
        let (start, other) = (pools(64, 64), pools(16, 112));
        let changes = changed(&start, &other);
        let Ok([Change::Settings(settings)]) = changes.as_deref() else { panic!("{changes:?}") };
        let (boot, whole) = (common::control::BootId(1), tunnel::Part::WHOLE);
        let fresh = crate::shares::tunnel_config(&other, boot, &[[2; 6]], whole);
        assert_eq!(settings.tunnel, tunnel::Tuning::of(&fresh.sender, &fresh.receiver));
        let (lan, _) = crate::shares::lan_repair(&other, boot, whole).expect("by default");
        let fresh = lan.settings();
        assert_eq!((settings.switch.pools, settings.switch.tuning), (fresh.pools, fresh.tuning));
        // There is memory for as many as may wait.
        let start = crate::shares::tunnel_config(&start, boot, &[[2; 6]], whole);
        assert!(settings.tunnel.waiting_max <= start.receiver.waiting_room);
        let refused = changed(&pools(64, 64), &pools(64, 112)).unwrap_err();
        assert!(refused.contains("recovery.reorder_pool: the pools take"), "{refused}");
    }

    // R-SET-3
    #[test]
    fn pools_grow_into_what_was_reserved_and_no_further() {
        let pools = |cache: u32, reorder: u32| {
            let more = format!(
                "[eal]\nmemory = \"4GiB\"\n[recovery]\nresend_cache = \"{cache}MiB\"\nreorder_pool = \"{reorder}MiB\"\n"
            );
            good(&lab(&more))
        };
        let start = pools(64, 64);
        let smaller = pools(16, 64);
        assert!(changes(&start, &smaller, &start.pool).is_ok());
        // What one has left the other takes.
        let other = pools(16, 112);
        assert!(changes(&smaller, &other, &start.pool).is_ok());
        assert!(changes(&other, &start, &start.pool).is_ok());
        let refused = changes(&smaller, &pools(64, 112), &start.pool).unwrap_err().to_string();
        let parts = [
            "recovery.resend_cache, recovery.reorder_pool: the pools take 53248 mbufs",
            "and 40960 were reserved",
        ];
        assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
        // Without pools at the start there is nothing to grow into.
        let off = good(&lab("[recovery]\nmode = \"off\"\n"));
        let refused = changes(&off, &good(&lab("")), &off.pool).unwrap_err().to_string();
        assert!(refused.contains("recovery.mode: the pools take"), "{refused}");
        assert!(refused.contains("and 0 were reserved"), "{refused}");
        // A number of mbufs that the file names is no pool's.
        let named = good(&lab("[pool]\nmbufs = 50000\n"));
        let why = changed(&good(&lab("")), &named).unwrap_err();
        assert_eq!(why, "a restart is needed for pool.mbufs");
    }

    #[test]
    fn another_content_of_the_key_file_is_another_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let read = |secret: &str| {
            std::fs::write(&file, secret).unwrap();
            let keyed = format!("key_file = {file:?}");
            good(&lab("").replace("lab_unkeyed = true", &keyed))
        };
        let running = read("a secret of both boxes");
        assert_eq!(changed(&running, &read("a secret of both boxes")), Ok(vec![]));
        let refused = changed(&running, &good(&lab("")));
        assert_eq!(
            refused,
            Err("a restart is needed for peer.lab_unkeyed".to_owned()),
            "nobody turns it off by a reload"
        );
        let found = changed(&running, &read("another secret of both")).unwrap();
        assert_eq!(found, [Change::Keys(Keys::from_secret(b"another secret of both"))]);
    }
}
