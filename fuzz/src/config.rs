//! The gateway's configuration: any text.

use std::path::Path;

/// The gateway's own module, compiled without the rest of that crate, which
/// needs DPDK.
#[allow(dead_code, unused_imports, reason = "the gateway uses all of it")]
#[path = "../../gateway/src/config/mod.rs"]
mod gateway;

/// `data` is the file.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Key files are read while the file is: not just any file of this machine.
    if text.contains("key_file") && text.contains(['/', '\\', '.']) {
        return;
    }
    let file = Path::new("gateway.toml");
    match gateway::parse(file, text, None, None) {
        Ok(config) => {
            // A printed configuration is TOML that reads as the same configuration.
            let shown = config.to_string();
            let again = gateway::parse(file, &shown, None, None)
                .unwrap_or_else(|refusal| panic!("{}\n{shown}", refusal.report));
            assert_eq!(again.to_string(), shown);
        }
        Err(refusal) => assert!(!refusal.report.to_string().is_empty()),
    }
}
