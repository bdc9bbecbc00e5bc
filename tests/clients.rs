//! Programs that people use, asking servers of the test: with the names allowed each works as
//! outside, with none allowed nothing reaches a server.

mod harness;
mod world;

#[path = "clients/databases.rs"]
mod databases;
#[path = "clients/languages.rs"]
mod languages;
#[path = "clients/registries.rs"]
mod registries;
#[path = "clients/site.rs"]
mod site;
#[path = "clients/ssh.rs"]
mod ssh;
#[path = "clients/tools.rs"]
mod tools;

use std::path::PathBuf;

use harness::{Ran, Srt, outside, skip};
use site::Site;
use world::in_a_world;

/// One program and what it is to do.
struct Client<'c> {
    /// The only host that it asks.
    host: &'c str,
    /// What `sh` can find out whether it is installed by.
    needs: &'c str,
    /// Run by bash in an empty directory, with `$CA` the certificate of the CA.
    script: &'c str,
    /// What it prints in the end.
    says: &'c str,
}

impl Client<'_> {
    /// Shows that it works and that it is stopped.
    #[track_caller]
    fn works(&self, test: &str) {
        if outside(self.needs).status != 0 {
            return skip(&format!("`{}` fails", self.needs));
        }
        in_a_world(test, |world| self.works_in(&Site::start(world)));
    }

    fn works_in(&self, site: &Site<'_>) {
        let control = site.seen(self.host, || {
            self.worked(&site.outside("outside", self.script));
        });
        assert!(control > 0, "the script does not ask {}", self.host);
        for by_proxy in [true, false] {
            let allowed = self.srt(site, by_proxy).allow_host(self.host);
            let name = format!("allowed-{by_proxy}");
            let seen = site.seen(self.host, || {
                self.worked(&site.inside(&name, allowed, self.script));
            });
            assert!(seen > 0, "with proxy variables: {by_proxy}");
            let asked = site.world.dns.asked(self.host).len();
            let seen = site.seen(self.host, || {
                let refused = self.srt(site, by_proxy);
                let ran = site.inside(&format!("refused-{by_proxy}"), refused, self.script);
                assert!(!ran.stdout.contains(self.says), "{ran:?}");
                ran.fails();
            });
            assert_eq!(seen, 0, "with proxy variables: {by_proxy}");
            let asked = site.world.dns.asked(self.host).len() - asked;
            assert_eq!(asked, 0, "a refused name is not looked up");
        }
    }

    #[track_caller]
    fn worked(&self, ran: &Ran) {
        let said = ran.stdout.trim_end().ends_with(self.says);
        assert!(ran.status == 0 && said, "{ran:#?}");
    }

    fn srt(&self, site: &Site<'_>, by_proxy: bool) -> Srt {
        let srt = Srt::new(&site.world.scratch);
        srt.set("network.proxyEnv", by_proxy.into())
    }
}

/// Where CI installs programs that are in no package of the system.
fn tools() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    target.with_file_name("clients")
}
