//! tmp
use sandbox_runtime::*;
fn main() -> std::process::ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let host = policy::Host::read().unwrap();
    let mut s = settings::Settings::default();
    let e = |k, t: &str| settings::Entry { text: t.into(), literal: false, origin: settings::Origin { key: k, file: None, line: 0, column: 0 } };
    if let Some(w) = host.var("W") { s.filesystem.allow_write.push(e("filesystem.allowWrite", w.to_str().unwrap())); }
    if let Some(w) = host.var("D") { s.filesystem.deny_read.push(e("filesystem.denyRead", w.to_str().unwrap())); }
    if let Some(w) = host.var("R") { s.filesystem.allow_read.push(e("filesystem.allowRead", w.to_str().unwrap())); }
    let mut c = backend::Command::default();
    c.argv = args;
    let audit = Audit::none(if host.var("SRT_DEBUG").is_some() { audit::sink::Debug::On } else { audit::sink::Debug::Off });
    match sandbox::run(&s, &host, &c, &audit) {
        Ok(o) => o.exit_code().into(),
        Err(e) => { eprintln!("srt: {e}\n{:?}", e.hint()); e.exit_code().into() }
    }
}
