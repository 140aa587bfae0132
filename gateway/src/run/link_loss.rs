//! Link-loss forwarding: a port whose counterpart has lost its link is taken down as well, so that what is
//! connected there sees the failure at once and takes another path.
//!
//! A port that was taken down for that reason says nothing about its cable: it is never a cause itself. So two boxes,
//! each of which watches the other through its WAN port, can't keep each other down.

mod policy;

use std::time::{Duration, Instant, SystemTime};

use dpdk_sys_wrapper::Port;

use self::policy::{LinkLoss, Side};
use crate::config::{Config, LinkForward};
use crate::control::State as Shared;
use crate::event::What;
use crate::held::Marks;
use crate::port::PortId;

/// A port's link.
pub(super) trait LinkPort {
    /// Whether it is up; `None` if that can't be known now.
    fn is_up(&self) -> Option<bool>;

    /// Sets it up or down.
    fn set(&self, up: bool) -> Result<(), String>;

    /// The kernel's interface behind it, which stays down if the process is killed.
    fn interface(&self) -> Option<String>;
}

impl LinkPort for Port {
    fn is_up(&self) -> Option<bool> {
        self.known_link().map(|link| link.up)
    }

    fn set(&self, up: bool) -> Result<(), String> {
        self.set_link(up).map_err(|error| error.to_string())
    }

    fn interface(&self) -> Option<String> {
        self.interface()
    }
}

/// What was last done with a port.
#[derive(Clone, Copy, Default, Debug)]
struct Done {
    is_held: bool,
    /// It can't be set as it should be, which was said.
    has_failed: bool,
}

/// Takes ports down, and lets them come up.
pub(super) struct Forwarder<'p, P: LinkPort> {
    ports: &'p [P],
    done: Vec<Done>,
    policy: LinkLoss,
    marks: Marks,
}

impl<'p, P: LinkPort> Forwarder<'p, P> {
    /// Asks the drivers of the ports that may be taken down whether they can be, and says which can't. `marks` outlive the
    /// process.
    pub(super) fn new(config: &Config, ports: &'p [P], state: &Shared, marks: Marks) -> Self {
        let hold_down = Duration::from_nanos(config.link_loss.hold_down.as_nanos());
        let mode = config.link_loss.forward;
        for (id, port) in PortId::all(u8::MAX).zip(ports) {
            let is_asked = match mode {
                LinkForward::Off => false,
                LinkForward::Lan => id == PortId::LAN,
                LinkForward::On => true,
            };
            let answer = if is_asked { port.set(true) } else { continue };
            state.links.set_settable(id, answer.is_ok());
            if let Err(error) = answer {
                let other = if id == PortId::LAN { "WAN" } else { "LAN" };
                tracing::info!(
                    "port {}: it stays up when the {other} has no link (link_loss.forward): {error}",
                    id.name()
                );
            }
        }
        let done = vec![Done::default(); ports.len()];
        Self { ports, done, policy: LinkLoss::new(mode, hold_down, Instant::now()), marks }
    }

    /// Looks at the links, and takes down or releases ports. To be called every 20 ms.
    pub(super) fn look(&mut self, state: &Shared, now: Instant) {
        // Most drivers ask the NIC.
        if !self.policy.is_on() {
            return;
        }
        let mut up = self.ports.iter().map(LinkPort::is_up);
        let lan = up.next().flatten();
        // One that is up is enough; that none is, is known only if all are known.
        let wan = up.reduce(|one, other| match (one, other) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        });
        let held = self.policy.look(lan, wan.flatten(), now);
        self.hold(held, state);
    }

    /// Lets all ports come up: behind this process somebody else may use them.
    pub(super) fn end(&mut self, state: &Shared) {
        self.hold(None, state);
    }

    /// Sets every port as it should be with this side down. What fails is tried again at the next look.
    fn hold(&mut self, held: Option<Side>, state: &Shared) {
        for ((id, port), done) in PortId::all(u8::MAX).zip(self.ports).zip(&mut self.done) {
            let side = if id == PortId::LAN { Side::Lan } else { Side::Wan };
            let is_held = held == Some(side);
            if is_held == done.is_held || !state.links.is_settable(id) {
                continue;
            }
            let interface = port.interface();
            if let (true, Some(name)) = (is_held, &interface)
                && let Err(error) = self.marks.set(name)
                && !done.has_failed
            {
                tracing::warn!("{name} would stay down if this process was killed: {error:#}");
            }
            let is_set = port.set(!is_held);
            // It is up: it was released, or could not be taken down.
            if let (true, Some(name)) = (is_set.is_ok() != is_held, &interface) {
                self.marks.clear(name);
            }
            if let Err(error) = is_set {
                if !core::mem::replace(&mut done.has_failed, true) {
                    tracing::error!("port {}, tried again and again: {error}", id.name());
                }
                continue;
            }
            *done = Done { is_held, has_failed: false };
            state.links.set_held(id, is_held);
            let port = id.name();
            let what = match (is_held, side) {
                (false, _) => What::LinkReleased { port },
                (true, Side::Lan) => What::LinkHeld { port, reason: "no WAN port has a link" },
                (true, Side::Wan) => What::LinkHeld { port, reason: "the LAN port has no link" },
            };
            state.events.note(Default::default(), SystemTime::now(), what);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::path::PathBuf;

    use super::*;
    use crate::config::tests::{good, lab};

    /// A port whose link and driver the test sets.
    struct Fake {
        up: Cell<Option<bool>>,
        works: Cell<bool>,
        is_down_by_order: Cell<bool>,
        /// Its mark, which is there before it goes down.
        mark: RefCell<Option<PathBuf>>,
    }

    impl Fake {
        fn new() -> Self {
            let (up, works) = (Cell::new(Some(true)), Cell::new(true));
            Self { up, works, is_down_by_order: Cell::new(false), mark: RefCell::default() }
        }
    }

    impl LinkPort for Fake {
        fn is_up(&self) -> Option<bool> {
            self.up.get().map(|up| up && !self.is_down_by_order.get())
        }

        fn set(&self, up: bool) -> Result<(), String> {
            if !self.works.get() {
                return Err("the driver refuses".into());
            }
            let mark = self.mark.borrow();
            assert!(up || mark.as_ref().is_none_or(|mark| mark.exists()), "no mark yet");
            self.is_down_by_order.set(!up);
            Ok(())
        }

        fn interface(&self) -> Option<String> {
            Some("no interface".to_owned())
        }
    }

    #[test]
    fn what_fails_is_tried_again() {
        let config = good(&lab(""));
        let (state, ports) = (Shared::new("both", 1, None), [Fake::new(), Fake::new()]);
        let folder = tempfile::tempdir().unwrap();
        let marks = Marks::of(folder.path(), "test");
        let mark = marks.folder().join("no interface");
        let marked = || mark.exists();
        ports[0].mark.replace(Some(mark.clone()));
        let mut it = Forwarder::new(&config, &ports, &state, marks);
        let start = Instant::now();
        let look = |it: &mut Forwarder<'_, Fake>, ms| {
            it.look(&state, start + Duration::from_millis(ms));
            [0, 1].map(|n| ports[n].is_down_by_order.get())
        };
        assert_eq!(look(&mut it, 0), [false; 2]);
        ports[1].up.set(Some(false));
        ports[0].works.set(false);
        look(&mut it, 20);
        assert_eq!(look(&mut it, 60), [false; 2]);
        assert!(!marked());
        assert!(!state.links.is_held(PortId::LAN));
        ports[0].works.set(true);
        assert_eq!(look(&mut it, 80), [true, false]);
        assert!(marked());
        assert!(state.links.is_held(PortId::LAN));
        // Nobody knows the link for a while.
        ports[1].up.set(None);
        assert_eq!(look(&mut it, 5_000), [true, false]);
        ports[1].up.set(Some(true));
        look(&mut it, 5_020);
        ports[0].works.set(false);
        assert_eq!(look(&mut it, 6_020), [true, false]);
        assert!(marked());
        assert!(state.links.is_held(PortId::LAN));
        ports[0].works.set(true);
        it.end(&state);
        assert_eq!([0, 1].map(|n| ports[n].is_down_by_order.get()), [false; 2]);
        assert!(!marked());
        assert!(!state.links.is_held(PortId::LAN));
    }

    /// One of several WAN ports is enough.
    #[test]
    fn the_wan_is_lost_with_its_last_port() {
        let config = good(&lab(""));
        let ports = [Fake::new(), Fake::new(), Fake::new()];
        let state = Shared::new("both", 1, None);
        let folder = tempfile::tempdir().unwrap();
        let marks = Marks::of(folder.path(), "test");
        let mut it = Forwarder::new(&config, &ports, &state, marks);
        let start = Instant::now();
        let look = |it: &mut Forwarder<'_, Fake>, ms, one, other| {
            ports[1].up.set(one);
            ports[2].up.set(other);
            it.look(&state, start + Duration::from_millis(ms));
            ports[0].is_down_by_order.get()
        };
        assert!(!look(&mut it, 0, Some(true), Some(true)));
        assert!(!look(&mut it, 100, Some(false), Some(true)));
        assert!(!look(&mut it, 200, Some(false), None));
        assert!(!look(&mut it, 300, Some(false), Some(false)));
        assert!(look(&mut it, 400, Some(false), Some(false)));
    }
}
