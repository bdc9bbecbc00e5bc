//! The places that get the events of a run: those of flags, and those of `audit.sinks`.

use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::RunOptions;
use crate::audit::{FileOptions, Sink};
use crate::error::{Error, Kind, Result};
use crate::policy::{Host, path};
use crate::sandbox;
use crate::settings::values::{Data, Record};
use crate::settings::{Entry, Origin, Settings};

/// Tells whether flags or settings ask for any.
pub(super) fn are_asked_for(options: &RunOptions, settings: Option<&Settings>) -> bool {
    let of_settings = |settings: &Settings| !settings.values.records("audit.sinks").is_empty();
    let of_flags = !options.events.is_empty() || !options.events_fds.is_empty();
    of_flags || settings.is_some_and(of_settings)
}

/// Opens what flags and settings ask for. Of settings that cannot be used, or that ask for what
/// cannot be had, the other places are told.
///
/// # Errors
/// What a flag asks for cannot be had.
pub(super) fn open(
    options: &RunOptions,
    settings: Result<Settings>,
    host: &Host,
    cwd: &Path,
    passed: &[RawFd],
) -> Result<(Vec<Sink>, Result<Settings>)> {
    let mut wanted = of_flags(options, cwd);
    let mut settings = settings.and_then(|settings| {
        for record in settings.values.records("audit.sinks") {
            add(&mut wanted, record, host)?;
        }
        Ok(settings)
    });
    let mut sinks = Vec::new();
    for fd in &options.events_fds {
        sinks.push(descriptor(*fd, passed)?);
    }
    for (place, origin) in wanted {
        match (place.open(), origin) {
            (Ok(sink), _) => sinks.push(sink),
            (Err(error), None) => return Err(error),
            (Err(error), Some(origin)) => settings = settings.and(Err(placed(error, &origin))),
        }
    }
    Ok((sinks, settings))
}

/// A place that is asked for.
enum Place {
    File(PathBuf, FileOptions),
    Journald(Option<PathBuf>),
    Syslog(Option<PathBuf>),
    RemoteSyslog(String),
    Otlp(String),
}

impl Place {
    fn open(&self) -> Result<Sink> {
        match self {
            Self::File(path, options) => Sink::file(path, *options),
            Self::Journald(path) => Sink::journald(path.as_deref()),
            Self::Syslog(path) => Sink::syslog(path.as_deref()),
            Self::RemoteSyslog(address) => Sink::remote_syslog(address),
            Self::Otlp(address) => Sink::otlp(address),
        }
    }
}

/// What is asked for, with where that stands unless it was a flag.
type Wanted = Vec<(Place, Option<Origin>)>;

fn of_flags(options: &RunOptions, cwd: &Path) -> Wanted {
    let file_options = FileOptions {
        is_chained: options.events_chain,
        ..FileOptions::default()
    };
    let mut wanted = Wanted::new();
    for path in &options.events {
        add_file(&mut wanted, cwd.join(path), file_options, None);
    }
    wanted
}

fn add(wanted: &mut Wanted, record: &Record, host: &Host) -> Result<()> {
    let origin = Some(record.origin.clone());
    let path = path_of(record, host)?;
    let address = record.text("address").map(str::to_owned);
    let place = match (record.text("type"), path, address) {
        (Some("file"), Some(path), _) => {
            add_file(wanted, path, options_of(record), origin);
            return Ok(());
        }
        (Some("journald"), path, _) => Place::Journald(path),
        (Some("syslog"), _, Some(address)) => Place::RemoteSyslog(address),
        (Some("syslog"), path, None) => Place::Syslog(path),
        (Some("otlp"), _, Some(address)) => Place::Otlp(address),
        // Reading settings refuses others.
        _ => return Ok(()),
    };
    wanted.push((place, origin));
    Ok(())
}

/// Adds a file; one that is asked for twice is written once, as the stricter asks.
fn add_file(wanted: &mut Wanted, path: PathBuf, asked: FileOptions, origin: Option<Origin>) {
    for (place, _) in wanted.iter_mut() {
        if let Place::File(found, options) = place
            && *found == path
        {
            options.max_size = options.max_size.min(asked.max_size);
            options.is_chained |= asked.is_chained;
            return;
        }
    }
    wanted.push((Place::File(path, asked), origin));
}

fn options_of(record: &Record) -> FileOptions {
    let data = |name| record.fields.get(name).map(|value| &value.data);
    let default = FileOptions::default();
    FileOptions {
        max_size: match data("maxSize") {
            Some(Data::Int(size)) => *size,
            _ => default.max_size,
        },
        is_chained: matches!(data("chain"), Some(Data::Bool(true))),
    }
}

fn path_of(record: &Record, host: &Host) -> Result<Option<PathBuf>> {
    let Some(value) = record.fields.get("path") else {
        return Ok(None);
    };
    let text = value.text().unwrap_or_default().to_owned();
    let entry = Entry::literal(text, value.origin.clone());
    path::absolute(&entry, host).map(Some)
}

fn descriptor(fd: RawFd, passed: &[RawFd]) -> Result<Sink> {
    if passed.contains(&fd) {
        let goal = format!("descriptor {fd} is to get events and is passed to the command too");
        return Err(Error::new(Kind::Usage, goal)
            .with_hint("open another one: the command could write events of its own"));
    }
    Ok(Sink::descriptor(fd, sandbox::writable(fd)?))
}

/// Says where the settings ask for what cannot be had.
fn placed(error: Error, origin: &Origin) -> Error {
    let hint = error.hint().map(str::to_owned);
    let placed = Error::new(Kind::Settings, origin.to_string()).source(io::Error::other(error));
    match hint {
        Some(hint) => placed.with_hint(hint),
        None => placed,
    }
}
