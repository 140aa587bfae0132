//! How many frames each pool may hold.

use super::Config;

/// Mbufs that each pool may pin, over all workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    pub resend_cache: u64,
    pub reorder_pool: u64,
    pub backup_pool: u64,
}

/// The mbufs that nothing else in the box needs, divided among the pools as
/// their bytes are.
pub(crate) fn holdable_shares(config: &Config) -> Shares {
    let bytes = |used: bool, bytes: u64| if used { u128::from(bytes) } else { 0 };
    let recovery = &config.recovery;
    let cache = bytes(config.role.is_sentry(), recovery.resend_cache);
    let reorder = bytes(config.role.is_depot(), recovery.reorder_pool);
    let backup = bytes(config.role.is_depot(), recovery.backup_pool);
    let all = (cache + reorder + backup).max(1);
    let holdable = config.pool.holdable();
    // Each is at most `holdable`, which is a u32.
    let share = |part| u64::try_from(u128::from(holdable) * part / all).unwrap_or(0);
    Shares { resend_cache: share(cache), reorder_pool: share(reorder), backup_pool: share(backup) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Role, parse};
    use super::*;

    #[test]
    fn the_mbufs_that_are_free_to_hold_are_divided_as_the_bytes_are() {
        let text = "[lan]\ndevice = \"net_null0\"\n[wan]\ndevice = \"net_null1\"\n\
                    [peer]\nlab_unkeyed = true\n[recovery]\nresend_cache = \"32MiB\"\n\
                    reorder_pool = \"64MiB\"\nbackup_pool = \"16MiB\"\n";
        for (role, resend_cache, reorder_pool, backup_pool) in [
            (Role::Sentry, 8192, 0, 0),
            (Role::Depot, 0, 16384, 4096),
            (Role::Both, 8192, 16384, 4096),
        ] {
            let config = parse(Path::new("gw.toml"), text, Some(role)).unwrap();
            let expected = Shares { resend_cache, reorder_pool, backup_pool };
            assert_eq!(holdable_shares(&config), expected, "{role:?}");
        }
    }
}
