//! Programs that fetch, and git.

use super::Client;

#[test]
fn curl_fetches() {
    Client {
        host: "web.test",
        needs: "curl --version",
        script: "curl -sS --fail http://web.test:8000/; curl -sS --fail --cacert $CA https://web.test/",
        says: "word of the web\nword of the web",
    }
    .works("tools::curl_fetches");
}

#[test]
fn wget_fetches() {
    Client {
        host: "web.test",
        needs: "wget --version",
        script: "get() { wget -q -O - --tries=1 --ca-certificate=$CA $1; }
            get http://web.test:8000/; get https://web.test/",
        says: "word of the web\nword of the web",
    }
    .works("tools::wget_fetches");
}

#[test]
fn openssl_speaks_tls_to_a_server_it_connects_to_itself() {
    Client {
        host: "web.test",
        needs: "openssl version",
        script: r"printf 'GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n' |
            openssl s_client -quiet -verify_return_error -CAfile $CA -connect web.test:443 \
            -servername web.test 2>/dev/null | tail -1 | grep word",
        says: "word of the web",
    }
    .works("tools::openssl_speaks_tls_to_a_server_it_connects_to_itself");
}

#[test]
fn openssl_speaks_tls_through_the_proxy() {
    Client {
        host: "web.test",
        needs: "openssl version",
        script: r#"via=${HTTPS_PROXY:+"-proxy ${HTTPS_PROXY#http://}"}
            printf 'GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n' |
            openssl s_client -quiet -verify_return_error -CAfile $CA $via -connect web.test:443 \
            -servername web.test 2>/dev/null | tail -1 | grep word"#,
        says: "word of the web",
    }
    .works("tools::openssl_speaks_tls_through_the_proxy");
}

#[test]
fn git_clones_and_pushes_over_http() {
    git(
        "http://git.test:8000",
        "tools::git_clones_and_pushes_over_http",
    );
}

#[test]
fn git_clones_and_pushes_over_https() {
    git(
        "https://git.test",
        "tools::git_clones_and_pushes_over_https",
    );
}

fn git(url: &str, test: &str) {
    let script = format!(
        "export GIT_SSL_CAINFO=$CA GIT_CONFIG_GLOBAL=/dev/null
git clone -q {url}/repo.git clone && cd clone
branch=$(basename $(dirname $PWD))
git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m second
git push -q origin HEAD:refs/heads/$branch
git ls-remote origin refs/heads/$branch | grep -c $(git rev-parse HEAD)
cat file"
    );
    Client {
        host: "git.test",
        needs: "git http-backend 2>&1 | grep -q REQUEST_METHOD",
        script: &script,
        says: "1\nword of git",
    }
    .works(test);
}
