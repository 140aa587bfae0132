//! The parameters by name, for the API, and the way of those that are set to the workers.

use std::sync::{Mutex, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use serde::Serialize;
use tunnel::Setting;

use crate::config::{self, Config, Parameter};

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

/// The body of `/parameters`.
#[derive(Serialize)]
struct Body<'a> {
    parameters: &'a [Parameter],
}

/// All parameters.
#[derive(Debug, Default)]
pub struct Parameters(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    all: Vec<Parameter>,
    workers: Vec<Producer<Setting>>,
    /// The newest setting of each parameter that was set, for workers that start later.
    set: Vec<Setting>,
}

impl Parameters {
    /// Those of a configuration.
    pub fn new(config: &Config) -> Self {
        Self(Mutex::new(Inner { all: config::parameters(config), ..Inner::default() }))
    }

    /// The way to one more worker.
    pub fn add_worker(&self) -> Consumer<Setting> {
        let (mut to, from) = RingBuffer::new(DEPTH);
        let mut inner = self.inner();
        for setting in &inner.set {
            // There are fewer parameters than the ring has places.
            let _ = to.push(*setting);
        }
        inner.workers.push(to);
        from
    }

    /// All as JSON, in the order of the file's reference.
    ///
    /// # Errors
    /// Never: everything in them has a form in JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Body { parameters: &self.inner().all })
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
        let Inner { all, workers, set } = &mut *inner;
        let found = all.iter_mut().find(|parameter| parameter.name == name);
        let parameter = found.ok_or(Refused::Unknown)?;
        if !parameter.settable {
            let why = if config::is_settable(name) {
                "without a tunnel (wan.tunnel) it has no effect"
            } else {
                "it can't be set while the gateway runs: change the file, and restart the gateway"
            };
            return Err(Refused::Unfit(format!("{name}: {why}")));
        }
        let setting = config::setting(name, value).map_err(Refused::Unfit)?;
        // Only this thread fills the rings, so that what has room now has room below.
        if workers.iter().any(|worker| worker.slots() == 0) {
            return Err(Refused::Busy);
        }
        for worker in workers {
            // A worker that has ended needs none.
            let _ = worker.push(setting);
        }
        set.retain(|old| core::mem::discriminant(old) != core::mem::discriminant(&setting));
        set.push(setting);
        parameter.value = config::setting_value(setting);
        Ok(parameter.clone())
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tunnel::spray::Policy;

    use super::*;
    use crate::config::tests::{good, lab};

    // R-TUN-54
    #[test]
    fn a_parameter_that_is_set_before_a_worker_starts_reaches_it() {
        let text = lab("").replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n");
        let parameters = Parameters::new(&good(&text));
        for policy in ["reps", "pinned"] {
            assert!(parameters.set("wan.spray", policy).is_ok());
        }
        let mut worker = parameters.add_worker();
        assert_eq!(worker.pop(), Ok(Setting::Spray(Policy::Pinned)));
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
            assert_eq!(worker.pop(), Ok(Setting::Spray(Policy::Pinned)));
            assert!(worker.pop().is_err());
        }
        assert!(parameters.json().unwrap().contains("\"wan.spray\",\"value\":\"pinned\""));
        while parameters.set("wan.resend_copies", "1").is_ok() {
            let _ = workers[0].pop();
        }
        assert_eq!(parameters.set("wan.spray", "reps"), Err(Refused::Busy));
        assert!(workers[0].pop().is_err(), "the first has room, the second has none");
        assert!(parameters.json().unwrap().contains("\"wan.spray\",\"value\":\"pinned\""));
    }
}
