//! The parameters by name, for the API, and the way of those that are set to the workers.

use std::mem::discriminant;

use api::Configuration;
use parking_lot::Mutex;
use rtrb::{Consumer, Producer, RingBuffer};
use serde_json::Value;
use switch::FlowName;

use crate::config::{self, Config};
use crate::reload::Change;
use crate::shares::settings;
use api::Parameter;

/// Settings that may wait for a worker, which takes them every few milliseconds.
const DEPTH: usize = 16;

/// Why a parameter was not set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is none of this name.
    Unknown,
    /// The reason, in one line.
    Unfit(String),
    /// A worker has not taken the last ones yet.
    Busy,
}

/// All parameters.
#[derive(Debug, Default)]
pub struct Parameters(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The configuration in the file, and the effective one: the same with the values that requests have set.
    configs: Option<[Config; 2]>,
    workers: Vec<Producer<Change>>,
    /// The newest change of each kind, for workers that start later.
    set: Vec<Change>,
}

impl Parameters {
    /// Those of a configuration.
    pub fn new(config: &Config) -> Self {
        Self(Mutex::new(Inner {
            configs: Some([config.clone(), config.clone()]),
            ..Inner::default()
        }))
    }

    /// The way to one more worker.
    pub fn add_worker(&self) -> Consumer<Change> {
        let (mut to, from) = RingBuffer::new(DEPTH);
        let mut inner = self.inner();
        for change in &inner.set {
            // There are fewer kinds than the ring has places.
            let _ = to.push(change.clone());
        }
        inner.workers.push(to);
        from
    }

    /// All, in the order of the file's reference.
    pub fn all(&self) -> api::Parameters {
        api::Parameters { parameters: self.inner().parameters() }
    }

    /// The effective configuration, with what was set. Of secrets it has the names of their files.
    pub fn config(&self) -> Configuration {
        let Some([_, config]) = self.inner().configs.clone() else {
            return Configuration::default();
        };
        let toml = config.to_string();
        let object: Option<Value> = toml::from_str(&toml).ok();
        let file = config.file.display().to_string();
        Configuration { file, toml, config: object.unwrap_or_default() }
    }

    /// Sets a parameter for all workers, and returns it as it is from now on.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn set(&self, name: &str, value: &str) -> Result<Parameter, Refused> {
        let parameter = self.change(name, value)?;
        tracing::info!("{name} is {} from now on", parameter.value);
        Ok(parameter)
    }

    fn change(&self, name: &str, value: &str) -> Result<Parameter, Refused> {
        let mut inner = self.inner();
        let found = inner.parameters().into_iter().find(|parameter| parameter.name == name);
        if !found.ok_or(Refused::Unknown)?.settable {
            let why = if config::is_settable(name) {
                "without a tunnel (wan.tunnel) it has no effect"
            } else {
                "it can't be set while the gateway runs: change the file, and restart the gateway, or send it SIGHUP"
            };
            return Err(Refused::Unfit(format!("{name}: {why}")));
        }
        let Some([file, config]) = inner.configs.clone() else { return Err(Refused::Unknown) };
        let new = config::with(&config, name, value).map_err(Refused::Unfit)?;
        inner.send(&[Change::Settings(Box::new(settings(&new)))])?;
        inner.configs = Some([file, new]);
        let set = inner.parameters().into_iter().find(|parameter| parameter.name == name);
        set.ok_or(Refused::Unknown)
    }

    /// Protects flows, or leaves them to the RNICs.
    ///
    /// # Errors
    /// [`Refused::Busy`].
    pub fn set_protection(&self, flows: &[FlowName], is_on: bool) -> Result<(), Refused> {
        let changes: Vec<_> = flows.iter().map(|flow| Change::Protection(*flow, is_on)).collect();
        self.inner().send(&changes)
    }

    /// Applies a reload: sends the workers of each pair of ports their changes, and stores the new configuration. If a worker
    /// of any pair has no room in its ring, no pair is changed.
    ///
    /// # Errors
    /// [`Refused::Busy`].
    pub fn apply_all(all: &[(&Self, &[Change], &Config)]) -> Result<(), Refused> {
        // The locks keep other threads from filling the rings between the check and the sends.
        let mut each: Vec<_> = all.iter().map(|(parameters, ..)| parameters.inner()).collect();
        if each.iter().zip(all).any(|(inner, (_, changes, _))| !inner.has_room(changes.len())) {
            return Err(Refused::Busy);
        }
        for (inner, (_, changes, new)) in each.iter_mut().zip(all) {
            inner.apply(changes, new)?;
        }
        Ok(())
    }

    fn inner(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Inner {
    /// All parameters of the effective configuration.
    fn parameters(&self) -> Vec<Parameter> {
        self.configs.as_ref().map(|[_, config]| config::parameters(config)).unwrap_or_default()
    }

    /// Whether every worker has room for so many changes. A worker that has ended takes none, and needs none.
    fn has_room(&self, changes: usize) -> bool {
        self.workers.iter().all(|worker| worker.slots() >= changes || worker.is_abandoned())
    }

    fn apply(&mut self, changes: &[Change], new: &Config) -> Result<(), Refused> {
        let mut config = new.clone();
        if let Some([file, set]) = &self.configs {
            // A reload keeps a value that a request has set, unless the file's own value of that key has changed.
            config::keep_requested(&mut config, set, file);
        }
        let mut changes = changes.to_vec();
        for change in &mut changes {
            if let Change::Settings(recovery) = change {
                **recovery = settings(&config);
            }
        }
        self.send(&changes)?;
        self.configs = Some([new.clone(), config]);
        Ok(())
    }

    /// Sends changes to all workers, or to none.
    fn send(&mut self, changes: &[Change]) -> Result<(), Refused> {
        // Only this side fills the rings, so that what has room now has room below.
        if !self.has_room(changes.len()) {
            return Err(Refused::Busy);
        }
        for change in changes {
            for worker in &mut self.workers {
                // A worker that has ended needs none.
                let _ = worker.push(change.clone());
            }
            if matches!(change, Change::Protection(..)) {
                // It is about a flow that is known, and a worker that starts later knows none.
                continue;
            }
            self.set.retain(|old| discriminant(old) != discriminant(change));
            self.set.push(change.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use common::verdict::Mode;
    use tunnel::spray::Policy;

    use super::*;
    use crate::config::tests::{good, lab};

    fn spray(change: Result<Change, rtrb::PopError>) -> Policy {
        let Ok(Change::Settings(settings)) = change else { panic!("{change:?}") };
        settings.tunnel.spray
    }

    // R-TUN-54
    #[test]
    fn a_parameter_that_is_set_before_a_worker_starts_reaches_it() {
        let text = lab("").replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n");
        let parameters = Parameters::new(&good(&text));
        for policy in ["reps", "pinned"] {
            assert!(parameters.set("wan.spray", policy).is_ok());
        }
        let mut worker = parameters.add_worker();
        assert_eq!(spray(worker.pop()), Policy::Pinned);
        assert!(worker.pop().is_err(), "only the newest");
    }

    // R-TUN-54
    #[test]
    fn without_a_tunnel_a_parameter_of_it_has_no_effect() {
        let parameters = Parameters::new(&good(&lab("")));
        let Err(Refused::Unfit(why)) = parameters.set("wan.spray", "reps") else { panic!("set") };
        assert_eq!(why, "wan.spray: without a tunnel (wan.tunnel) it has no effect");
    }

    // R-TUN-54
    #[test]
    fn a_parameter_is_set_for_all_workers_or_for_none() {
        let text = lab("").replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n");
        let parameters = Parameters::new(&good(&text));
        let mut workers = [0, 1].map(|_| parameters.add_worker());
        assert_eq!(parameters.set("wan.colour", "1"), Err(Refused::Unknown));
        assert!(matches!(parameters.set("lan.mtu", "1500"), Err(Refused::Unfit(_))));
        assert!(matches!(parameters.set("wan.spray", "red"), Err(Refused::Unfit(_))));
        let set = parameters.set("wan.spray", "pinned").map(|parameter| parameter.value);
        assert_eq!(set, Ok("pinned".into()));
        for worker in &mut workers {
            assert_eq!(spray(worker.pop()), Policy::Pinned);
            assert!(worker.pop().is_err());
        }
        let value = || {
            let all = parameters.all().parameters;
            all.into_iter().find(|it| it.name == "wan.spray").unwrap().value
        };
        assert_eq!(value(), "pinned");
        let config = parameters.config();
        assert_eq!(config.config["wan"]["spray"], "pinned");
        assert!(config.toml.contains("\nspray = \"pinned\"\n"), "{}", config.toml);
        while parameters.set("wan.resend_copies", "1").is_ok() {
            let _ = workers[0].pop();
        }
        assert_eq!(parameters.set("wan.spray", "reps"), Err(Refused::Busy));
        assert!(workers[0].pop().is_err(), "the first has room, the second has none");
        assert_eq!(value(), "pinned");
    }

    // R-TUN-54
    #[test]
    fn the_tolerance_is_set_with_a_tunnel_or_without_one() {
        for wan in ["[wan]\n", "[wan]\ntunnel = \"ethernet\"\n"] {
            let config = good(&lab("").replace("[wan]\n", wan));
            let parameters = Parameters::new(&config);
            let mut worker = parameters.add_worker();
            assert!(parameters.set("recovery.tolerance", "fixed").is_ok());
            let set = parameters.set("recovery.tolerance_depth", "77").expect("it can be set");
            assert_eq!(set.value, 77);
            let (_, last) = (worker.pop(), worker.pop());
            let Ok(Change::Settings(found)) = last else { panic!("{last:?}") };
            let tolerance = found.switch.tuning.tolerance;
            assert_eq!((tolerance.mode, tolerance.limits.depth), (Mode::Fixed, 77));
            assert_eq!(found.tunnel.tolerance, tolerance);
            // All else is as it was.
            let mut before = config.clone();
            before.recovery.tuning.tolerance = tolerance;
            assert_eq!(*found, settings(&before));
        }
    }

    /// A reload keeps a value that a request has set, also if it changes a timer beside it. It takes the file's value if that
    /// has changed.
    // R-TUN-54
    #[test]
    fn what_was_set_stays_until_the_file_says_otherwise() {
        let file = |more: &str| good(&lab(&format!("[recovery]\n{more}\n")));
        let parameters = Parameters::new(&file(""));
        let mut worker = parameters.add_worker();
        assert!(parameters.set("recovery.tolerance_depth", "77").is_ok());
        let mut reload = |old: &Config, new: &Config| {
            let changes = crate::reload::changes(old, new, &old.pool).expect("it can be applied");
            assert_eq!(Parameters::apply_all(&[(&parameters, &changes.changes, new)]), Ok(()));
            let last = std::iter::from_fn(|| worker.pop().ok()).last();
            let Some(Change::Settings(found)) = last else { panic!("{last:?}") };
            let tuning = found.switch.tuning;
            let shown = parameters.config().config["recovery"]["tolerance_depth"].clone();
            assert_eq!(shown, tuning.tolerance.limits.depth);
            (tuning.tolerance.limits.depth, tuning.rtt_guess.as_micros())
        };
        let guess = file("rtt_guess = \"77ms\"");
        assert_eq!(reload(&file(""), &guess), (77, 77_000));
        let depth = file("rtt_guess = \"77ms\"\ntolerance_depth = 9");
        assert_eq!(reload(&guess, &depth), (9, 77_000));
        assert_eq!(reload(&depth, &guess), (8, 77_000), "the default again");
    }

    #[test]
    fn a_changed_file_is_applied_to_all_pairs_or_to_none() {
        let config = good(&lab("").replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n"));
        let pairs = [0, 1].map(|_| Parameters::new(&config));
        let [mut east, west] = [0, 1].map(|n| pairs[n].add_worker());
        let changes = [Change::Settings(Box::new(settings(&config)))];
        let apply = || Parameters::apply_all(&[0, 1].map(|n| (&pairs[n], &changes[..], &config)));
        for _ in 0..DEPTH {
            assert_eq!(apply(), Ok(()));
            assert_eq!(east.pop(), Ok(changes[0].clone()));
        }
        assert_eq!(apply(), Err(Refused::Busy), "the second pair has no room");
        assert!(east.pop().is_err(), "so the first gets nothing");
        // A pair whose worker has ended does not keep the others from a reload.
        drop(west);
        assert_eq!(apply(), Ok(()));
        assert_eq!(east.pop(), Ok(changes[0].clone()));
    }
}
