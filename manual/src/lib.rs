//! Man pages and completions of the programs, made from their command lines, so that they name every option; and their [`out`]put.
//!
//! A program without commands of its own answers [`answer`] first: `PROGRAM man FOLDER` and `PROGRAM completions
//! SHELL`. The packages are made with both.

pub mod out;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;

/// To be shown under a program's `--help`.
pub const HELP: &str =
    "man FOLDER writes man pages, completions SHELL prints a shell's completions.";

/// Writes `NAME.1` for each program of `commands`, and for each of its commands, into `folder`.
///
/// # Errors
/// If a file can't be written.
pub fn pages(commands: &[Command], folder: &Path) -> io::Result<()> {
    commands.iter().try_for_each(|command| clap_mangen::generate_to(command.clone(), folder))
}

/// Prints the completions of a program for `shell`.
pub fn completions(command: &Command, shell: Shell, out: &mut dyn Write) {
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command.clone(), name, out);
}

/// Does what `man FOLDER` or `completions SHELL` ask for, if the first of `words` after the program's name is one of
/// these and another word follows; else `None`, and the program goes on. `commands`: the program, and its further
/// pages. Exit status: 0, 1 if a file can't be written, 2 if the words are wrong.
pub fn answer(commands: &[Command], words: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let words: Vec<_> = words.into_iter().collect();
    let [_, word, _, ..] = &words[..] else { return None };
    let program = commands.first()?;
    if word != "man" && word != "completions" {
        return None;
    }
    let found = parser(program.get_name()).try_get_matches_from(words);
    Some(match found {
        Ok(found) => write(commands, program, &found),
        Err(error) => {
            let _ = error.print();
            ExitCode::from(2)
        }
    })
}

/// Reads the name of a folder that exists.
pub fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new()
        .try_map(|path| if path.is_dir() { Ok(path) } else { Err("there is no such folder") })
}

fn parser(program: &str) -> Command {
    let folder = Arg::new("folder").required(true).value_parser(folder());
    let shells = clap::builder::EnumValueParser::<Shell>::new();
    Command::new("lr2").bin_name(program).subcommand(Command::new("man").arg(folder)).subcommand(
        Command::new("completions").arg(Arg::new("shell").required(true).value_parser(shells)),
    )
}

fn write(commands: &[Command], program: &Command, found: &ArgMatches) -> ExitCode {
    let written = match found.subcommand() {
        Some(("man", of)) => {
            of.get_one::<PathBuf>("folder").map_or(Ok(()), |folder| pages(commands, folder))
        }
        Some((_, of)) => {
            let mut text = Vec::new();
            completions(program, *of.get_one("shell").unwrap_or(&Shell::Bash), &mut text);
            out::print(String::from_utf8_lossy(&text));
            Ok(())
        }
        None => Ok(()),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::complain(format_args!("{}: {error}", program.get_name()));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Vec<Command> {
        let main = Command::new("lr2-x").arg(Arg::new("config").long("config"));
        vec![main.subcommand(Command::new("run")), Command::new("lr2-x-doctor")]
    }

    fn answered(words: &[&str]) -> Option<ExitCode> {
        answer(&program(), words.iter().map(OsString::from))
    }

    #[test]
    fn a_page_for_each_program_and_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert_eq!(answered(&["lr2-x", "man", path]), Some(ExitCode::SUCCESS));
        for page in ["lr2-x.1", "lr2-x-run.1", "lr2-x-doctor.1"] {
            let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
            assert!(text.contains(".SH NAME"), "{text}");
        }
    }

    #[test]
    fn completions_know_the_options() {
        let mut text = Vec::new();
        completions(&program()[0], Shell::Bash, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("--config") && text.contains("lr2-x"), "{text}");
    }

    #[test]
    fn other_words_are_the_programs() {
        for words in [&["lr2-x"][..], &["lr2-x", "man"], &["lr2-x", "--config", "man"]] {
            assert_eq!(answered(words), None, "{words:?}");
        }
        for words in [&["lr2-x", "man", "/nowhere"][..], &["lr2-x", "completions", "csh"]] {
            assert_eq!(answered(words), Some(ExitCode::from(2)), "{words:?}");
        }
    }
}
