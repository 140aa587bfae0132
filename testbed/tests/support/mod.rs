//! Running the real programs: a folder per test, a program that does not
//! outlive it, its output and its report.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Longer than any program of these tests takes, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

pub const WAN: &str = env!("CARGO_BIN_EXE_lr2-wan");
pub const HOST: &str = env!("CARGO_BIN_EXE_lr2-host");

/// A folder of one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    /// A short name: the path of a socket ends at 107 bytes.
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lr2-tb-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a writable folder for temporary files");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The report that a program has written to `name`.
    pub fn json(&self, name: &str) -> Value {
        let text = std::fs::read(self.path(name)).expect("a report");
        serde_json::from_slice(&text).expect("JSON")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `program` with `line` split at blanks.
fn command(program: &str, line: &str) -> Command {
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).env_remove("RUST_LOG");
    command
}

/// Output of a program that ends by itself.
pub fn output(program: &str, line: &str) -> Output {
    let mut running = Running::spawn(command(program, line));
    let status = running.wait();
    Output { status, stdout: Vec::new(), stderr: running.stderr().into() }
}

/// The last line that a failed program says, which must begin with its name
/// and contain all of `parts`.
pub fn fails_with(output: &Output, name: &str, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let at = stderr.find(&format!("{name}: ")).unwrap_or_else(|| panic!("{stderr}"));
    for part in parts {
        assert!(stderr[at..].contains(part), "{stderr:?} lacks {part:?}");
    }
}

/// A running program, killed if the test fails.
pub struct Running {
    child: Child,
    /// Standard output and standard error.
    files: [PathBuf; 2],
}

impl Running {
    fn spawn(mut command: Command) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = |what: &str| {
            let name = format!("lr2-tb-{}-{number}.{what}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let files = [file("out"), file("err")];
        let [out, err] =
            files.each_ref().map(|f| File::create(f).expect("a folder for temporary files"));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().expect("the program starts");
        Self { child, files }
    }

    /// Starts it and waits until its ports are open.
    pub fn start(program: &str, line: &str) -> Self {
        let mut running = Self::spawn(command(program, line));
        running.wait_until("ready", |r| r.stderr().contains(": ready"));
        running
    }

    /// Starts it and waits for nothing.
    pub fn begin(program: &str, line: &str) -> Self {
        Self::spawn(command(program, line))
    }

    pub fn stderr(&self) -> String {
        let text = std::fs::read(&self.files[1]).expect("its log");
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains('\x1b'), "colours in a file: {text:?}");
        text
    }

    /// The newest of the lines that it writes with `--live`.
    pub fn live(&self) -> Option<Value> {
        let text = std::fs::read_to_string(&self.files[0]).expect("its output");
        let whole = &text[..text.rfind('\n')?];
        serde_json::from_str(whole.lines().last()?).ok()
    }

    /// Waits until `done`; the program must not end before.
    pub fn wait_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            let ended = self.child.try_wait().expect("a child").is_some();
            // It may have ended right after it was done.
            assert!(!ended || done(self), "ended, not {what}:\n{}", self.stderr());
            assert!(Instant::now() < deadline, "not {what} in time:\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "still running:\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end, and expects exit code 0 and no complaint.
    pub fn stop(&mut self, signal: Signal) {
        self.signal(signal);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().expect("a pid")), signal).expect("alive");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The number at a path such as `/links/wan/a_to_b/lost/frames`.
pub fn number(report: &Value, path: &str) -> u64 {
    let value = report.pointer(path).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("no number at {path} in {report:#}"))
}

/// A folder's file as the text of a device argument.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A port of `net_memif`.
pub fn memif(number: u8, role: &str, socket: &Path) -> String {
    format!("net_memif{number},role={role},socket={},socket-abstract=no,bsize=8192", text(socket))
}
