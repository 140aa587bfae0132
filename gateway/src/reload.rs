//! A changed configuration file, for a gateway that runs: what can be applied between two bursts, and what needs a restart.

use common::control::Keys;
use switch::{FlowName, IpNet};
use tunnel::Setting;

use crate::config::{self, Config, Keying};
use crate::shares::keys;

/// A change that a worker applies between two bursts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A setting of the tunnel.
    Setting(Setting),
    /// The keys of control messages.
    Keys(Keys),
    /// Destinations that have a gateway in front of them.
    RemotePrefixes(Vec<IpNet>),
    /// Whether a flow is protected. It is no part of the configuration.
    Protection(FlowName, bool),
}

impl Change {
    /// The key of the configuration that has changed.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Setting(Setting::Spray(_)) => "wan.spray",
            Self::Setting(Setting::ResendCopies(_)) => "wan.resend_copies",
            Self::Keys(_) => "peer.key_file",
            Self::RemotePrefixes(_) => "peer.remote_prefixes",
            Self::Protection(..) => "",
        }
    }
}

/// The changes from one configuration to another one.
///
/// # Errors
/// The keys that need a restart. Nothing is to be changed then.
pub fn changes(running: &Config, new: &Config) -> Result<Vec<Change>, Vec<String>> {
    let [was_shared, is_shared] =
        [running, new].map(|config| matches!(config.peer.keying, Keying::Shared { .. }));
    if was_shared != is_shared {
        return Err(vec!["peer.lab_unkeyed".to_owned()]);
    }
    let mut same = running.clone();
    same.peer.keying = new.peer.keying.clone();
    same.peer.remote_prefixes = new.peer.remote_prefixes.clone();
    if running.tunnel.mode == new.tunnel.mode {
        same.tunnel.spray = new.tunnel.spray;
        same.tunnel.resend_copies = new.tunnel.resend_copies;
    }
    if same.to_string() != new.to_string() {
        return Err(names(&same, new));
    }
    let mut all = Vec::new();
    if running.peer.keying != new.peer.keying {
        all.push(Change::Keys(keys(new)));
    }
    if running.peer.remote_prefixes != new.peer.remote_prefixes {
        all.push(Change::RemotePrefixes(new.peer.remote_prefixes.clone()));
    }
    if running.tunnel.spray != new.tunnel.spray {
        all.push(Change::Setting(Setting::Spray(new.tunnel.spray)));
    }
    if running.tunnel.resend_copies != new.tunnel.resend_copies {
        all.push(Change::Setting(Setting::ResendCopies(new.tunnel.resend_copies)));
    }
    Ok(all)
}

/// The keys whose values differ.
fn names(old: &Config, new: &Config) -> Vec<String> {
    let [old, new] = [old, new].map(config::parameters);
    let differs = |one: &api::Parameter, others: &[api::Parameter]| {
        others.iter().all(|other| other.name != one.name || other.value != one.value)
    };
    let gone = old.iter().filter(|one| new.iter().all(|other| other.name != one.name));
    let changed = new.iter().filter(|one| differs(one, &old));
    gone.chain(changed).map(|parameter| parameter.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use tunnel::spray::Policy;

    use super::*;
    use crate::config::tests::{good, lab};

    fn tunnel(more: &str) -> Config {
        good(&lab("").replace("[wan]\n", &format!("[wan]\ntunnel = \"ethernet\"\n{more}")))
    }

    #[test]
    fn what_can_be_changed_is_and_the_rest_is_named() {
        let running = tunnel("");
        assert_eq!(changes(&running, &tunnel("")), Ok(vec![]));
        let both = "spray = \"reps\"\nresend_copies = 1\n";
        let expected = [Setting::Spray(Policy::Reps), Setting::ResendCopies(1)];
        assert_eq!(changes(&running, &tunnel(both)), Ok(expected.map(Change::Setting).into()));
        let refused = changes(&running, &tunnel("spray = \"reps\"\nrx_desc = 512\n"));
        // The pool follows from it.
        assert_eq!(refused, Err(vec!["wan.rx_desc".to_owned(), "pool.mbufs".to_owned()]));
        let refused = changes(&running, &good(&lab("")));
        assert!(refused.is_err_and(|names| names.contains(&"wan.tunnel".to_owned())));

        let running = good(&lab(""));
        let mut other = running.clone();
        other.peer.remote_prefixes = vec!["10.2.0.0/16".parse().unwrap()];
        let prefixes = other.peer.remote_prefixes.clone();
        assert_eq!(changes(&running, &other), Ok(vec![Change::RemotePrefixes(prefixes)]));
        other.recovery.tuning.rtt_guess = common::time::Span::from_millis(77);
        let refused = changes(&running, &other);
        assert!(refused.is_err_and(|names| names.contains(&"recovery.rtt_guess".to_owned())));
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
        assert_eq!(changes(&running, &read("a secret of both boxes")), Ok(vec![]));
        let refused = changes(&running, &good(&lab("")));
        assert_eq!(
            refused,
            Err(vec!["peer.lab_unkeyed".to_owned()]),
            "nobody turns it off by a reload"
        );
        let found = changes(&running, &read("another secret of both")).unwrap();
        assert_eq!(found, [Change::Keys(Keys::from_secret(b"another secret of both"))]);
    }
}
