//! Ways of paths, compared with what the kernel finds.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_resolver_that_knows_the_directories_finds_the_same_ways() {
    let own = Path::new("/tmp").join(format!("srt-ways-{}", std::process::id()));
    // Deep enough for every `..` to stay in what is ours.
    let dir = own.join("1/2/3/4/5/6/7/8/9");
    std::fs::create_dir_all(dir.join("a/b/c")).expect("the name is ours");
    let own = RealPath::resolve(&own).expect("just made").path;
    let dir = RealPath::resolve(&dir).expect("just made").path;
    std::fs::write(dir.join("a/file"), "").expect("just made");
    std::fs::hard_link(dir.join("a/file"), dir.join("a/b/same")).expect("the name is free");
    symlink("a/b", dir.join("to-b")).expect("the name is free");
    symlink("../../to-b", dir.join("a/b/round")).expect("the name is free");
    symlink("missing/../x", dir.join("odd")).expect("the name is free");

    let names = [
        "a", "b", "c", "file", "same", "to-b", "round", "odd", "missing", "..",
    ];
    let mut generator = crate::policy::generator::Generator(7);
    let mut resolver = Resolver::default();
    let (mut found, mut linked) = (0, 0);
    for _ in 0..2_000 {
        let mut path = dir.join(generator.pick(&names));
        path.extend(generator.some(&names, 5));
        let known = resolver.way(&path);
        assert_eq!(known, way(&path), "{}", path.display());
        if let Ok(real) = known.real() {
            // The kernel agrees wherever it finds something at all.
            if let Ok(meta) = std::fs::metadata(&path) {
                assert_eq!(meta.ino(), real.id().ino, "{}", path.display());
                found += 1;
            }
        }
        linked += usize::from(!known.links.is_empty());
    }
    assert!(found > 100 && linked > 100, "{found} {linked}");
    let same = way(&dir.join("a/b/same"));
    assert_eq!(
        (same.names, same.found.map(|id| id.kind)),
        (2, Ok(FileKind::File))
    );
    std::fs::remove_dir_all(&own).expect("the name is ours");
}

#[test]
fn more_links_than_the_kernel_follows_lead_nowhere() {
    let dir = Path::new("/tmp").join(format!("srt-links-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("d")).expect("the name is ours");
    let dir = RealPath::resolve(&dir).expect("just made").path;
    symlink(".", dir.join("d/l")).expect("the name is free");
    let through = |count: usize| {
        let mut path = dir.join("d");
        path.extend(std::iter::repeat_n("l", count));
        way(&path.join("x/../y"))
    };
    assert_eq!(through(MAX_LINKS).found, Err(Errno::ENOENT));
    let lost = through(MAX_LINKS + 1);
    assert_eq!(
        (lost.found, lost.end),
        (Err(Errno::ELOOP), dir.join("d/l/y"))
    );
    std::fs::remove_dir_all(&dir).expect("the name is ours");
}

#[test]
fn the_way_of_a_path_names_every_link_and_the_end() {
    let dir = Path::new("/tmp").join(format!("srt-way-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("a/b")).expect("the name is ours");
    let dir = RealPath::resolve(&dir).expect("just made").path;
    symlink("../b-link", dir.join("a/up")).expect("the name is free");
    symlink(dir.join("a/b"), dir.join("b-link")).expect("the name is free");
    symlink("nowhere/x", dir.join("dangling")).expect("the name is free");
    symlink("loop", dir.join("loop")).expect("the name is free");

    let found = way(&dir.join("a/./up/../up/file"));
    let links = ["a/up", "b-link", "a/up", "b-link"].map(|link| dir.join(link));
    let followed: Vec<_> = found.links.iter().map(|link| &link.path).collect();
    assert_eq!(
        (followed, found.end),
        (links.iter().collect(), dir.join("a/b/file"))
    );
    let left = [dir.join("a"), dir.join("a/b"), dir.join("a")];
    assert_eq!(found.crossed, left);

    let nowhere = way(&dir.join("dangling"));
    assert_eq!(nowhere.end, dir.join("nowhere/x"));
    assert_eq!(way(&dir.join("loop")).links.len(), MAX_LINKS);
    assert_eq!(way(Path::new("/../..")).end, Path::new("/"));
    std::fs::remove_dir_all(&dir).expect("the name is ours");
}

#[test]
fn a_protection_has_nothing_to_cover_where_nothing_is_and_fails_where_that_cannot_be_told() {
    let dir = std::env::temp_dir().join(format!("srt-there-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the name is free");
    symlink("loop", dir.join("loop")).expect("the name is free");

    assert!(resolve_if_there(&dir).is_ok_and(|real| real.is_some()));
    assert!(resolve_if_there(&dir.join("missing")).is_ok_and(|real| real.is_none()));
    let error = resolve_if_there(&dir.join("loop")).expect_err("a loop has no end");
    assert_eq!(error.kind(), Kind::Unsupported);
    std::fs::remove_dir_all(&dir).expect("the name is ours");
}
