//! Names of DPDK devices.

/// The allowed names of a device, for error messages.
pub const FORM: &str = "a PCI address such as 0000:3b:00.0, or a vdev whose name begins with net_; \
                        for a kernel interface: net_af_packet0,iface=NAME";

/// Whether it is a vdev and not a PCI function.
pub fn is_virtual(device: &str) -> bool {
    device.starts_with("net_") || device.starts_with("eth_")
}

/// A device of the command line.
///
/// # Errors
/// If it is neither a vdev nor a PCI address.
pub fn parse(text: &str) -> Result<String, String> {
    if is_virtual(text) || pci_address(text).is_some() {
        return Ok(text.to_owned());
    }
    Err(format!("expected {FORM}"))
}

/// `[domain:]bus:device.function`, in hexadecimal, with the domain added; text
/// behind a comma is arguments for the driver.
pub fn pci_address(device: &str) -> Option<String> {
    let address = device.split(',').next()?;
    let (rest, function) = address.rsplit_once('.')?;
    let mut parts = rest.split(':').collect::<Vec<_>>();
    if parts.len() == 2 {
        parts.insert(0, "0000");
    }
    let [domain, bus, slot] = parts[..] else { return None };
    let hex = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    let valid = hex(domain, 4)
        && hex(bus, 2)
        && hex(slot, 2)
        && matches!(function, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7");
    valid.then(|| format!("{domain}:{bus}:{slot}.{function}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_told_from_virtual_devices() {
        let found = |device| (is_virtual(device), pci_address(device));
        assert_eq!(found("0000:3b:00.0"), (false, Some("0000:3b:00.0".into())));
        assert_eq!(found("3B:00.1,representor=0"), (false, Some("0000:3b:00.1".into())));
        assert_eq!(found("net_memif0,socket=/run/a:b"), (true, None));
        assert_eq!(found("eth_af_packet0"), (true, None));
        for wrong in ["bogus", "3b:00.8", "3b:0.1", "", "3b:00", "0:3b:00.0", "mlx5_0"] {
            assert!(parse(wrong).is_err_and(|why| why.contains("3b:00.0")), "{wrong}");
        }
        for right in ["3b:00.0", "net_null0"] {
            assert_eq!(parse(right), Ok(right.to_owned()));
        }
    }
}
