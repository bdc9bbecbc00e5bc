use super::*;

#[test]
fn every_store_has_a_reason_and_is_listed_once() {
    let mut all: Vec<_> = STORES.iter().flat_map(|store| store.places).collect();
    assert!(all.len() > 100);
    all.sort();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(STORES.iter().all(|store| !store.reason.is_empty()));
}

#[test]
fn the_documentation_lists_every_store() {
    let text = include_str!("../../../docs/secrets.md");
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(rows.len(), STORES.len());
    for (row, store) in rows.iter().zip(STORES) {
        let places: Vec<_> = store
            .places
            .iter()
            .map(|place| format!("`{place}`"))
            .collect();
        let holds = match store.contents {
            Contents::Hidden(shown @ [_, ..]) => {
                let names: Vec<_> = shown.iter().map(|name| format!("`{name}`")).collect();
                format!("{}; {} stay", store.reason, names.join(", "))
            }
            _ => store.reason.to_owned(),
        };
        assert_eq!(*row, format!("| {} | {holds} |", places.join(", ")));
    }
}

#[test]
fn a_star_stands_for_anything_and_a_name_for_itself() {
    let table = [
        ("*.pub", "id.pub", true),
        ("*.pub", "id", false),
        ("known_hosts*", "known_hosts.old", true),
        ("config", "config", true),
        ("config", "config.d", false),
        ("ssh_host_*_key", "ssh_host_rsa_key", true),
        ("ssh_host_*_key", "ssh_host_rsa_key.pub", false),
        ("a*a", "a", false),
    ];
    for (pattern, name, expected) in table {
        assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
    }
}
