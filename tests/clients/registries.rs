//! Package managers, each with a registry of its own that offers one package.

use super::harness::{Srt, outside, skip};
use super::world::in_a_world;
use super::{Client, Site};

#[test]
fn npm_installs() {
    let script = r#"echo '{"name":"project"}' >package.json
npm install demo --registry $URL --cafile $CA --cache cache --fetch-retries 0 --no-audit \
    --no-update-notifier >said 2>&1 || { cat said; exit 1; }
node -p 'require("demo")'"#;
    of_both(
        "npm.test",
        "npm --version",
        script,
        "word of npm",
        "registries::npm_installs",
    );
}

#[test]
fn pip_installs() {
    let script = "pip install -q --target got --no-cache-dir --disable-pip-version-check \
    --retries 0 --cert $CA --trusted-host pypi.test:8000 --index-url $URL/simple demo
PYTHONPATH=got /usr/bin/python3 -c 'import demo; print(demo.word)'";
    let script =
        format!("pip() {{ PIP_CONFIG_FILE=/dev/null /usr/bin/python3 -m pip \"$@\"; }}\n{script}");
    let needs = "/usr/bin/python3 -m pip --version";
    of_both(
        "pypi.test",
        needs,
        &script,
        "word of pip",
        "registries::pip_installs",
    );
}

#[test]
fn uv_which_is_made_with_rustls_installs() {
    let script = "export SSL_CERT_FILE=$CA UV_HTTP_RETRIES=0
uv() { PATH=$TOOLS/bin:$PATH command uv --no-config --no-progress \"$@\"; }
uv pip install -q --target got --no-cache --python /usr/bin/python3 \
    --allow-insecure-host pypi.test:8000 --index-url $URL/simple demo
PYTHONPATH=got /usr/bin/python3 -c 'import demo; print(demo.word)'";
    let needs = format!("PATH={}/bin:$PATH uv --version", super::tools().display());
    let test = "registries::uv_which_is_made_with_rustls_installs";
    of_both("pypi.test", &needs, script, "word of pip", test);
}

#[test]
fn cargo_builds_with_a_dependency() {
    let script = r#"export CARGO_HOME=$PWD/home CARGO_NET_RETRY=0 CARGO_TARGET_DIR=$PWD/target
PATH=$(rustc --print sysroot)/bin:$PATH
mkdir -p home src
cat >home/config.toml <<END
[registries.test]
index = "sparse+$URL/index/"
[http]
cainfo = "$CA"
END
cat >Cargo.toml <<END
[package]
name = "project"
version = "0.1.0"
edition = "2021"
[dependencies]
demo = { version = "1", registry = "test" }
[workspace]
END
echo 'fn main() { println!("{}", demo::WORD); }' >src/main.rs
cargo run -q"#;
    // rustup's cargo is a stand-in that looks for the toolchain in HOME.
    let script = format!("export PATH={}:$PATH\n{script}", toolchain());
    let needs = format!("{}/cargo --version", toolchain());
    let test = "registries::cargo_builds_with_a_dependency";
    of_both("crates.test", &needs, &script, "word of cargo", test);
}

fn toolchain() -> String {
    let ran = outside("rustc --print sysroot");
    format!("{}/bin", ran.stdout.trim())
}

#[test]
fn go_downloads_a_module() {
    let script = "export GOPROXY=$URL GOSUMDB=off GOFLAGS=-modcacherw GOPATH=$PWD/path \
    GOCACHE=$PWD/cache SSL_CERT_FILE=$CA
go mod download example.test/demo@v1.0.0
sed -n 's/.*\"\\(.*\\)\"/\\1/p' path/pkg/mod/example.test/demo@v1.0.0/demo.go";
    of_both(
        "go.test",
        "go version",
        script,
        "word of go",
        "registries::go_downloads_a_module",
    );
}

/// Does it over http and over https.
fn of_both(host: &str, needs: &str, script: &str, says: &str, test: &str) {
    let script = format!(
        "work() {{\n{script}\n}}
for URL in http://{host}:8000 https://{host}; do
    mkdir ${{URL%%:*}} && (cd ${{URL%%:*}} && work)
done"
    );
    Client {
        host,
        needs,
        script: &script,
        says: &format!("{says}\n{says}"),
    }
    .works(test);
}

const MAVEN: &str = r#"cat >settings.xml <<'END'
<settings><localRepository>${user.dir}/local</localRepository>
<mirrors><mirror><id>test</id><mirrorOf>*</mirrorOf><url>http://maven.test:8000</url></mirror>
</mirrors></settings>
END
cat >pom.xml <<'END'
<project><modelVersion>4.0.0</modelVersion>
<parent><groupId>test</groupId><artifactId>parent</artifactId><version>1</version>
<relativePath/></parent>
<artifactId>project</artifactId><packaging>pom</packaging></project>
END
mvn -B -q -s settings.xml validate
grep -o 'word of maven' local/test/parent/1/parent-1.pom"#;

#[test]
fn maven_resolves_a_parent() {
    Client {
        host: "maven.test",
        needs: "mvn --version",
        script: MAVEN,
        says: "word of maven",
    }
    .works("registries::maven_resolves_a_parent");
}

#[test]
fn profiles_open_the_caches_of_go_and_maven() {
    let go = "export GOPROXY=https://go.test GOSUMDB=off SSL_CERT_FILE=$CA
go mod init example.test/project 2>said && go get example.test/demo@v1.0.0 2>>said || { cat said; exit 1; }
printf 'package project\n\nimport \"example.test/demo\"\n\nconst Word = demo.Word\n' >project.go
go build && test -n \"$(ls ~/.cache/go-build)\" && cat ~/go/pkg/mod/example.test/demo@v1.0.0/demo.go";
    let maven = format!("{MAVEN}\ncat ~/.m2/repository/test/parent/1/parent-1.pom")
        .replace("<localRepository>${user.dir}/local</localRepository>", "");
    let maven = maven.replace("mvn -B", "mvn -Duser.home=$HOME -B");
    let maven = maven.replace(
        "grep -o 'word of maven' local/test/parent/1/parent-1.pom",
        "",
    );
    let table = [
        ("go", "go version", "go.test", go, "word of go"),
        (
            "jvm",
            "mvn --version",
            "maven.test",
            &maven,
            "word of maven",
        ),
    ];
    in_a_world(
        "registries::profiles_open_the_caches_of_go_and_maven",
        |world| {
            let site = Site::start(world);
            for (profile, needs, host, script, says) in table {
                if outside(needs).status != 0 {
                    skip(&format!("`{needs}` fails"));
                    continue;
                }
                let srt = || Srt::new(&world.scratch).allow_host(host);
                let without = site.inside(&format!("{profile}-without"), srt(), script);
                assert!(!without.fails().stdout.contains(says), "{profile}");
                let srt = srt().flags(&["--profile", profile]);
                let ran = site.inside(profile, srt, script).succeeds();
                assert!(ran.stdout.contains(says), "{profile}: {ran:#?}");
            }
        },
    );
}
