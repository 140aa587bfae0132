//! Timers and pools that change while frames cross.

use common::frame::Headroom;
use common::time::Time;
use switch::Pools;
use tunnel::Tuning;

use crate::Tunnelled;

/// Timers and pools of a datapath, which takes those of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Of the switch. Of one that repairs the LANs beside a tunnel, the mode and the resend cache stay as they are.
    pub switch: switch::Settings,
    /// Of the tunnel.
    pub tunnel: Tuning,
}

impl<F: Headroom> Tunnelled<F> {
    /// Works by other timers, and smaller pools, from now on. Pools that are to be larger [grow](Self::grow_pools) later.
    pub(crate) fn set_settings(&mut self, settings: &Settings, now: Time) {
        let tunnel::Config { sender, receiver, .. } = self.tunnel.config();
        let tunnel = Tuning {
            cache_max: settings.tunnel.cache_max.min(sender.cache_max),
            waiting_max: settings.tunnel.waiting_max.min(receiver.waiting_max),
            ..settings.tunnel
        };
        let mut switch = settings.switch;
        if let Some(lan) = &self.lan {
            let (wanted, has) = (switch.pools, lan.switch().settings().pools);
            switch.pools = Pools {
                reorder_pool: wanted.reorder_pool.min(has.reorder_pool),
                backup_pool: wanted.backup_pool.min(has.backup_pool),
                ..wanted
            };
        }
        self.take_settings(&Settings { switch, tunnel }, now);
        self.growing = Some(*settings);
    }

    /// Whether the caller keeps up with its frames no longer. The tunnel carries all frames as before.
    pub(crate) fn set_overloaded(&mut self, is_overloaded: bool) {
        if let Some(lan) = &mut self.lan {
            lan.switch_mut().set_overloaded(is_overloaded);
        }
    }

    /// Whether other settings are still being taken over.
    pub fn is_retuning(&self) -> bool {
        self.growing.is_some() || self.is_switch_retuning()
    }

    fn is_switch_retuning(&self) -> bool {
        self.lan.as_ref().is_some_and(|lan| lan.switch().is_retuning())
    }

    /// Lets pools grow that are to, once all others have shrunk: the memory is there once. R-TUN-60
    pub(crate) fn grow_pools(&mut self, now: Time) {
        let Some(settings) = self.growing else { return };
        if !self.is_switch_retuning() && self.tunnel.fits_pools() {
            self.growing = None;
            self.take_settings(&settings, now);
        }
    }

    fn take_settings(&mut self, settings: &Settings, now: Time) {
        self.tunnel.retune(now, &settings.tunnel);
        if let Some(lan) = &mut self.lan {
            lan.set_settings(&settings.switch, self.tunnel.config());
        }
    }
}
