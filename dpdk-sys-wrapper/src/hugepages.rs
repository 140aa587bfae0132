//! How much memory there is in free hugepages.

use std::fs;
use std::path::Path;

/// Free hugepages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    kib: u64,
    free: u64,
}

const SYSFS: &str = "/sys/kernel/mm/hugepages";

/// The kernel's page sizes, smallest first; empty without hugepages.
pub(crate) fn sizes() -> Vec<Size> {
    read(Path::new(SYSFS))
}

fn read(root: &Path) -> Vec<Size> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let number = |path: &Path| -> u64 {
        fs::read_to_string(path).ok().and_then(|s| s.trim().parse().ok()).unwrap_or(0)
    };
    let mut sizes: Vec<Size> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let kib =
                name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let dir = entry.path();
            // Reserved pages are free, and promised to somebody.
            let free = number(&dir.join("free_hugepages"))
                .saturating_sub(number(&dir.join("resv_hugepages")));
            Some(Size { kib, free })
        })
        .collect();
    sizes.sort_by_key(|s| s.kib);
    sizes
}

/// Memory in free pages of all sizes, in MiB.
pub(crate) fn free_mib(sizes: &[Size]) -> u64 {
    sizes.iter().map(|s| s.kib * s.free / 1024).sum()
}

/// The command that makes `needed_mib` of hugepages available.
pub(crate) fn how_to_reserve(sizes: &[Size], needed_mib: u32) -> String {
    let Some(smallest) = sizes.first() else {
        return "this kernel offers none".into();
    };
    let missing_kib = u64::from(needed_mib).saturating_sub(free_mib(sizes)) * 1024;
    let pages = missing_kib.div_ceil(smallest.kib);
    format!(
        "reserve {pages} more pages of {} kB (as root: n=$(cat {SYSFS}/hugepages-{}kB/nr_hugepages); echo $((n+{pages})) > {SYSFS}/hugepages-{}kB/nr_hugepages)",
        smallest.kib, smallest.kib, smallest.kib
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_pages_are_counted_without_reserved_ones() {
        let root = std::env::temp_dir().join(format!("lr2-hugepages-{}", std::process::id()));
        for (size, free, reserved) in [("1048576", "1", "1"), ("2048", "10\n", "3\n")] {
            let dir = root.join(format!("hugepages-{size}kB"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("free_hugepages"), free).unwrap();
            fs::write(dir.join("resv_hugepages"), reserved).unwrap();
        }
        let sizes = read(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(sizes, [Size { kib: 2048, free: 7 }, Size { kib: 1_048_576, free: 0 }]);
        assert_eq!(free_mib(&sizes), 14);
        // 100 MiB - 14 MiB = 43 pages of 2 MiB.
        assert!(how_to_reserve(&sizes, 100).contains("reserve 43 more pages of 2048 kB"));
    }

    #[test]
    fn a_kernel_without_hugepages_has_none() {
        assert_eq!(read(Path::new("/nonexistent")), []);
        assert!(how_to_reserve(&[], 1).contains("none"));
    }
}
