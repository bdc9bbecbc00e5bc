"""What the clients ask: registries with one package each, git repositories, databases, RPC.

    site.py DIRECTORY

Serves https on 443 and http on 8000 by the name in Host, PostgreSQL on 5432, Redis on 6379 and,
where grpc can be imported, RPC on 50051. Each request adds a line `NAME WHAT` to DIRECTORY/log.
"""
import base64, hashlib, http.server, io, json, os, ssl, subprocess, sys, tarfile, threading, zipfile
import socketserver, struct

root = sys.argv[1]
log = open(f"{root}/log", "a", buffering=1)
lock = threading.Lock()


def note(name, what):
    with lock:
        log.write(f"{name} {what}\n")


# Packages, each with a word that says where it came from.

def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def npm():
    package = tar({
        "package/package.json": '{"name":"demo","version":"1.0.0","main":"main.js"}',
        "package/main.js": 'module.exports = "word of npm"',
    })
    digest = base64.b64encode(hashlib.sha512(package).digest()).decode()
    version = {"name": "demo", "version": "1.0.0",
               "dist": {"tarball": "BASE/demo/-/demo-1.0.0.tgz", "integrity": f"sha512-{digest}"}}
    about = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return {"/demo": json.dumps(about), "/demo/-/demo-1.0.0.tgz": package}


def pypi():
    wheel = zipped({
        "demo.py": "word = 'word of pip'\n",
        "demo-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0.0\n",
        "demo-1.0.0.dist-info/WHEEL":
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "demo-1.0.0.dist-info/RECORD": "demo.py,,\ndemo-1.0.0.dist-info/METADATA,,\n"
            "demo-1.0.0.dist-info/WHEEL,,\ndemo-1.0.0.dist-info/RECORD,,\n",
    })
    name = "demo-1.0.0-py3-none-any.whl"
    page = f'<!DOCTYPE html><a href="/files/{name}">{name}</a>'
    return {"/simple/demo/": page, f"/files/{name}": wheel}


def crates():
    package = tar({
        "demo-1.0.0/Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\nedition = "2021"\n',
        "demo-1.0.0/src/lib.rs": 'pub const WORD: &str = "word of cargo";\n',
    })
    line = {"name": "demo", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
            "cksum": hashlib.sha256(package).hexdigest()}
    return {"/index/config.json": json.dumps({"dl": "BASE/crates"}),
            "/index/de/mo/demo": json.dumps(line), "/crates/demo/1.0.0/download": package}


def go():
    module = "module example.test/demo\n"
    at = "/example.test/demo/@v"
    package = zipped({
        "example.test/demo@v1.0.0/go.mod": module,
        "example.test/demo@v1.0.0/demo.go": 'package demo\n\nconst Word = "word of go"\n',
    })
    about = json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"})
    return {f"{at}/list": "v1.0.0\n", f"{at}/v1.0.0.info": about,
            f"{at}/v1.0.0.mod": module, f"{at}/v1.0.0.zip": package}


def maven():
    pom = """<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId>
        <artifactId>parent</artifactId><version>1</version><packaging>pom</packaging>
        <name>word of maven</name></project>"""
    at = "/test/parent/1/parent-1.pom"
    return {at: pom, f"{at}.sha1": hashlib.sha1(pom.encode()).hexdigest()}


pages = {"npm.test": npm(), "pypi.test": pypi(), "crates.test": crates(), "go.test": go(),
         "maven.test": maven()}


class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scheme = "http"

    def log_message(self, *_):
        pass

    def whole(self, status, body, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        address = self.headers.get("Host", "")
        name = address.partition(":")[0]
        path, _, query = self.path.partition("?")
        note(name, f"{self.command} {self.path}")
        if name == "git.test":
            return self.git(path, query)
        found = pages.get(name, {"/": "word of the web\n"}).get(path)
        if found is None:
            return self.whole(404, b"not found\n")
        if isinstance(found, str):
            found = found.replace("BASE", f"{self.scheme}://{address}").encode()
        kinds = {"pypi.test": "text/html", "npm.test": "application/json"}
        self.whole(200, found, kinds.get(name, "application/octet-stream"))

    do_HEAD = do_POST = do_GET

    def git(self, path, query):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        variables = dict(os.environ, GIT_PROJECT_ROOT=root, GIT_HTTP_EXPORT_ALL="1",
                         PATH_INFO=path, QUERY_STRING=query, REQUEST_METHOD=self.command,
                         CONTENT_TYPE=self.headers.get("Content-Type", ""),
                         CONTENT_LENGTH=str(length), REMOTE_USER="test", REMOTE_ADDR="192.0.2.1",
                         HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""),
                         GIT_PROTOCOL=self.headers.get("Git-Protocol", ""))
        ran = subprocess.run(["git", "http-backend"], input=body, env=variables,
                             capture_output=True)
        head, _, body = ran.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.whole(int(fields.pop("Status", "200").split()[0]), body, fields["Content-Type"])


class SecurePages(Pages):
    scheme = "https"


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64


class SecureServer(Server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{root}/site.pem", f"{root}/site.key")

    def finish_request(self, request, client_address):
        request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, *_):
        pass


class Postgres(socketserver.StreamRequestHandler):
    """Lets anybody in and answers each query with one word."""

    def message(self, kind, body=b""):
        self.wfile.write(kind + struct.pack(">I", len(body) + 4) + body)

    def handle(self):
        note("pg.test", "connection")
        while True:
            length, code = struct.unpack(">II", self.rfile.read(8))
            self.rfile.read(length - 8)
            if code == 196608:
                break
            self.wfile.write(b"N")
        self.message(b"R", struct.pack(">I", 0))
        self.message(b"S", b"client_encoding\0UTF8\0")
        self.message(b"Z", b"I")
        while (kind := self.rfile.read(1)) == b"Q":
            self.rfile.read(struct.unpack(">I", self.rfile.read(4))[0] - 4)
            column = b"word\0" + struct.pack(">IHIhIH", 0, 0, 25, -1, 0xffffffff, 0)
            self.message(b"T", struct.pack(">H", 1) + column)
            word = b"word of postgres"
            self.message(b"D", struct.pack(">HI", 1, len(word)) + word)
            self.message(b"C", b"SELECT 1\0")
            self.message(b"Z", b"I")


class Redis(socketserver.StreamRequestHandler):
    """Answers every command with one word."""

    def handle(self):
        note("redis.test", "connection")
        while line := self.rfile.readline():
            for _ in range(int(line[1:])):
                self.rfile.readline()
                self.rfile.readline()
            self.wfile.write(b"+word of redis\r\n")


def rpc():
    try:
        import grpc
    except ImportError:
        return
    from concurrent import futures

    class Any(grpc.GenericRpcHandler):
        def service(self, details):
            note("rpc.test", details.method)
            return grpc.unary_unary_rpc_method_handler(lambda request, _: b"word of " + request)

    pair = [(open(f"{root}/site.key", "rb").read(), open(f"{root}/site.pem", "rb").read())]
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Any()])
    server.add_secure_port("[::]:50051", grpc.ssl_server_credentials(pair))
    server.start()
    return server


class Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_):
        pass


servers = [Server(("", 8000), Pages), SecureServer(("", 443), SecurePages),
           Tcp(("", 5432), Postgres), Tcp(("", 6379), Redis)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
kept = rpc()
print("ready", flush=True)
sys.stdin.read()
