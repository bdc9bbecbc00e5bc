//! What programs of a language ask with.

use super::Client;

#[test]
fn requests_of_python_fetches() {
    let script = "import os, requests
for url in ('http://web.test:8000/', 'https://web.test/'):
    print(requests.get(url, verify=os.environ['CA'], timeout=10).text, end='')";
    python("requests", script, "languages::requests_of_python_fetches");
}

#[test]
fn httpx_of_python_fetches() {
    let script = "import httpx, os
for url in ('http://web.test:8000/', 'https://web.test/'):
    print(httpx.get(url, verify=os.environ['CA'], timeout=10).text, end='')";
    python("httpx", script, "languages::httpx_of_python_fetches");
}

#[test]
fn aiohttp_of_python_fetches_by_the_variables() {
    let script = AIOHTTP.replace("SESSION", "trust_env=True");
    python(
        "aiohttp",
        &script,
        "languages::aiohttp_of_python_fetches_by_the_variables",
    );
}

#[test]
fn aiohttp_of_python_fetches_as_it_is() {
    let script = AIOHTTP.replace("SESSION", "");
    python(
        "aiohttp",
        &script,
        "languages::aiohttp_of_python_fetches_as_it_is",
    );
}

const AIOHTTP: &str = "import aiohttp, asyncio, os, ssl
async def main():
    context = ssl.create_default_context(cafile=os.environ['CA'])
    async with aiohttp.ClientSession(SESSION) as session:
        for url in ('http://web.test:8000/', 'https://web.test/'):
            async with session.get(url, ssl=context) as answer:
                assert answer.status == 200
                print(await answer.text(), end='')
asyncio.run(main())";

#[test]
fn websockets_of_python_speaks() {
    let script = "import asyncio, websockets
async def main():
    async with websockets.connect('ws://app.test:8081/') as socket:
        await socket.send('word of the web')
        print(await socket.recv())
asyncio.run(main())";
    let test = "languages::websockets_of_python_speaks";
    let script = format!("/usr/bin/python3 - <<'END'\n{script}\nEND");
    Client {
        host: "app.test",
        needs: "/usr/bin/python3 -c 'import websockets'",
        script: &script,
        says: "word of the web",
    }
    .works(test);
}

#[test]
fn grpc_of_python_calls() {
    let script = "import grpc, os
ca = grpc.ssl_channel_credentials(open(os.environ['CA'], 'rb').read())
with grpc.secure_channel('rpc.test:50051', ca) as channel:
    print(channel.unary_unary('/test/call')(b'rpc', timeout=10).decode())";
    let script = format!("export CA\n/usr/bin/python3 - <<'END'\n{script}\nEND");
    Client {
        host: "rpc.test",
        needs: "/usr/bin/python3 -c 'import grpc'",
        script: &script,
        says: "word of rpc",
    }
    .works("languages::grpc_of_python_calls");
}

fn python(module: &str, script: &str, test: &str) {
    Client {
        host: "web.test",
        needs: &format!("/usr/bin/python3 -c 'import {module}'"),
        script: &format!("export CA\n/usr/bin/python3 - <<'END'\n{script}\nEND"),
        says: "word of the web\nword of the web",
    }
    .works(test);
}

#[test]
fn fetch_of_node_asks() {
    let script = r#"NODE_EXTRA_CA_CERTS=$CA node -e '
const https = require("https");
const say = text => process.stdout.write(text);
(async () => {
    for (const url of ["http://web.test:8000/", "https://web.test/"])
        say(await (await fetch(url)).text());
    https.get("https://web.test/", answer => answer.on("data", say));
})().catch(error => { console.error(error); process.exit(1); });' 2>noise || { cat noise; exit 1; }
# Nothing is said about variables that are set for it.
test ! -s noise"#;
    Client {
        host: "web.test",
        needs: "node -e fetch",
        script,
        says: "word of the web\nword of the web\nword of the web",
    }
    .works("languages::fetch_of_node_asks");
}

#[test]
fn clients_of_java_ask() {
    let script = r#"cat >Ask.java <<'END'
import java.net.*;
import java.net.http.*;
public class Ask {
    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            System.out.write(new URL(url).openConnection().getInputStream().readAllBytes());
            HttpRequest request = HttpRequest.newBuilder(URI.create(url)).build();
            HttpResponse.BodyHandler<String> text = HttpResponse.BodyHandlers.ofString();
            System.out.print(HttpClient.newHttpClient().send(request, text).body());
        }
    }
}
END
keytool -importcert -noprompt -keystore trust -storepass changeit -file $CA >/dev/null 2>&1
java -Djavax.net.ssl.trustStore=trust -Djavax.net.ssl.trustStorePassword=changeit \
    Ask.java http://web.test:8000/ https://web.test/"#;
    Client {
        host: "web.test",
        needs: "javac --version",
        script,
        says: "word of the web\nword of the web\nword of the web\nword of the web",
    }
    .works("languages::clients_of_java_ask");
}
