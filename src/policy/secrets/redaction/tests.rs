use std::time::Instant;

use super::*;

/// Lines of a file, and what is left of them.
const LINES: &[(&str, &str)] = &[
    (
        "registry=https://r.example/\n//r.example/:_authToken=abc\nfund=false\n",
        "registry=https://r.example/\nfund=false\n",
    ),
    ("_auth = abc\nalways-auth=true\n", "always-auth=true\n"),
    (
        "_authToken=\n@corp:registry=https://r.example/\n",
        "@corp:registry=https://r.example/\n",
    ),
    (
        "# auth token:\n@corp:registry=https://r.example/?authtoken=abc\n",
        "@corp:registry=https://r.example/\n",
    ),
    ("key=\"-----BEGIN-----abc\"\ncafile=/c\n", "cafile=/c\n"),
    (
        "# //r.example/:_authToken=abc\nfund=false\n",
        "fund=false\n",
    ),
    (
        "[global]\nindex-url = https://__token__:abc@p.example/simple\n",
        "[global]\nindex-url = https://p.example/simple\n",
    ),
    (
        "extra-index-url =\n    https://me@p.example/a\n    http://q.example/b\n",
        "extra-index-url =\n    https://p.example/a\n    http://q.example/b\n",
    ),
    ("proxy = u:abc@h:3128\n", "proxy = h:3128\n"),
    ("proxy=http://u:a/bc@h:3128\n", "proxy=http://h:3128\n"),
    (
        "registry=https://r.example:8080/@scope/x\n",
        "registry=https://r.example:8080/@scope/x\n",
    ),
    ("mail = me@example.org\n", "mail = me@example.org\n"),
    (
        "[registries.my]\nindex = \"sparse+https://x.example/\" # needs a token here\ntoken = \"abc\"\n",
        "[registries.my]\nindex = \"sparse+https://x.example/\"\n",
    ),
    ("my = { index = \"i\", token = \"abc\" }\n", ""),
    (
        "global-credential-providers = [\"cargo:token\", \"cargo:libsecret\"]\n",
        "global-credential-providers = [\"cargo:token\", \"cargo:libsecret\"]\n",
    ),
    (
        "nexusPassword=abc\norg.gradle.jvmargs=-Xmx2g\n",
        "org.gradle.jvmargs=-Xmx2g\n",
    ),
    (
        "gpr.key=ghp_abc\nsigningInMemoryKey=abc\nDB_PWD=abc\nx=1\n",
        "x=1\n",
    ),
    ("xPassword\tabc\nyPassword:abc\nx=1\n", "x=1\n"),
    (
        "npmAuthToken: abc\nnpmAuthIdent: \"me:abc\"\nnodeLinker: pnp\n",
        "nodeLinker: pnp\n",
    ),
    (
        "channels:\n  - https://conda.example/t/abc/main\n",
        "channels:\n  - https://conda.example/main\n",
    ),
    ("password =\n   abc\nuser = me\n", "user = me\n"),
    ("NPM_TOKEN=abc", ""),
    (
        "[user]\n\tname = A Monkey\n[credential]\n\thelper = store\n[http]\n\textraheader = AUTHORIZATION: basic abc\n",
        "[user]\n\tname = A Monkey\n[credential]\n\thelper = store\n[http]\n",
    ),
    (
        "init-author-name=me\nfirst_api_pat=abc\n",
        "init-author-name=me\n",
    ),
    (
        "\"//r.example/:_password\" \"abc\"\nregistry \"https://r.example/\"\n",
        "registry \"https://r.example/\"\n",
    ),
];

fn lines(text: &str) -> Redaction {
    redact(Form::Lines, text)
}

#[test]
fn lines_of_a_secret_go_and_settings_stay() {
    for (text, expected) in LINES {
        let expected = match expected == text {
            true => Redaction::Harmless,
            false => Redaction::Part((*expected).to_owned()),
        };
        assert_eq!(lines(text), expected, "{text}");
        if let Redaction::Part(left) = lines(text) {
            assert!(!left.contains("abc"), "{left}");
        }
    }
}

#[test]
fn a_secret_whose_end_cannot_be_told_leaves_nothing() {
    let open = [
        "token = \"\"\"\nabc\"\"\"\n",
        "token = \"\"\"x\nabc\"\"\"\n",
        "token = <<E\nabc\nE\n",
        "password: \"a\nabc\"\n",
        "token = [\n\"abc\"\n",
        "[sendemail] smtpPass = abc]\nx = 1\n",
        "x: &t abc\nnpmAuthToken: *t\n",
        "x = [\n  { a = 1,\n    token = \"abc\" }\n]\n",
    ];
    for text in open {
        assert_eq!(lines(text), Redaction::Unseparable, "{text}");
    }
}

#[test]
fn a_secret_that_goes_on_in_other_lines_goes_with_them() {
    let table = [
        ("password:\n  abc\nx: pnp\n", "x: pnp\n"),
        ("password =\n\n   abc\nx = 1\n", "x = 1\n"),
        ("password =\n# c\n; c\n   abc\nx = 1\n", "x = 1\n"),
        ("password = a\n   abc\n\n abc\nx = 1\n", "x = 1\n"),
        ("npmAuthToken: >-\n  abc\n\n  abc\nx: 1\n", "x: 1\n"),
        ("a:\n  secret: |\n    abc\n  x: 1\n", "a:\n  x: 1\n"),
        ("tokens:\n- abc\n- abc\nx: 1\n", "x: 1\n"),
        ("a: { token:\n abc }\nx: 1\n", "x: 1\n"),
        ("a: {\"token\":\"abc\"}\nx: 1\n", "x: 1\n"),
        ("a: {\"tokens\":[\"abc\"]}\nx: 1\n", "x: 1\n"),
        ("{\"a\":{\"pwd\":1234}}\nx: 1\n", "x: 1\n"),
        ("? npmAuthToken\n: abc\nx: 1\n", "x: 1\n"),
        ("xPassword=\\\nabc\nx=1\n", "x=1\n"),
        ("xPass\\\n  word=abc\nx=1\n", "x=1\n"),
        ("a=b \\\r\n  -Dpassword=abc\r\nx=1\r\n", "x=1\r\n"),
        ("url=https://u:\\\n  abc@h/\nx=1\n", "x=1\n"),
        ("token = [\n\"abc\",\n]\nx = 1\n", "x = 1\n"),
        ("x = [\n { a = 1, token = \"abc\" },\n]\n", "x = [\n]\n"),
        ("x = [ { token = \"abc\",\n } ]\ny = 1\n", "y = 1\n"),
        (
            "credentials \"a.example\" {\n  token = \"abc\"\n}\nx = 1\n",
            "x = 1\n",
        ),
        (
            "[http]\n\tcookie = abc\n\tproxy = h\n",
            "[http]\n\tproxy = h\n",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(lines(text), Redaction::Part(expected.to_owned()), "{text}");
    }
}

#[test]
fn odd_syntax_hides_no_secret() {
    let table = [
        ("\u{feff}_auth=abc\r\nx=1\r\n", "x=1\r\n"),
        ("\u{feff}key: abc\nx: 1\n", "x: 1\n"),
        ("x=1\r//r.example/:_authToken=abc\ry=2\r", "x=1\ry=2\r"),
        ("_auth[]=abc\nx=1\n", "x=1\n"),
        ("'//r.example/:_password' 'abc'\nx 1\n", "x 1\n"),
        ("\"\\u005fauth\" = abc\nx=1\n", "x=1\n"),
        ("\"to\\u006ben\" = \"abc\"\nx=1\n", "x=1\n"),
        ("pass\\u0077ord=abc\nx=1\n", "x=1\n"),
        (
            "my = { index = \"i\" , token\t= \"abc\" }\nx = 1\n",
            "x = 1\n",
        ),
        ("registries.my.token = 'abc'\nx = 1\n", "x = 1\n"),
        (
            "\"registries\" . \"my\".\"token\"\t= 'abc'\nx = 1\n",
            "x = 1\n",
        ),
        ("[http] extraheader = X-Own: abc\n", ""),
        ("[sendemail] smtpPass = abc\nx = 1\n", "x = 1\n"),
        ("smtppass = abc\nsonar.login=abc\nx = 1\n", "x = 1\n"),
        ("cookie = \"s=abc\"\nx = 1\n", "x = 1\n"),
        (
            "user = me:abc\n-u me:abc\n-ume:abc\n--user me:abc\nsilent\n",
            "silent\n",
        ),
        (
            "-H \"X-Own: abc\"\nheader = \"X-Own: abc\"\nsilent\n",
            "silent\n",
        ),
        ("cert = k.pem:abc\noauth2-bearer abc\nsilent\n", "silent\n"),
        (
            "# old: ghp_abcdefghijklmnopqrstuvwxyz0123456789\nx = 1\n",
            "x = 1\n",
        ),
        ("# https://me:abc@r.example/\nx = 1\n", "x = 1\n"),
        ("# before it was abc\n_auth=abc\nx = 1\n", "x = 1\n"),
        (
            "x = ghp_abcdefghijklmnopqrstuvwxyz0123456789\ny = 1\n",
            "y = 1\n",
        ),
        (
            "index = \"i\" # abc\n_auth=abc\nx = 'it # is'\n",
            "index = \"i\"\nx = 'it # is'\n",
        ),
        ("x = 1 ; password=abc\r\n", "x = 1\r\n"),
        ("_authToken=${TOKEN-abc}\nx = 1\n", "x = 1\n"),
    ];
    for (text, expected) in table {
        assert_eq!(lines(text), Redaction::Part(expected.to_owned()), "{text}");
    }
}

#[test]
fn passwords_in_urls_may_hold_any_character() {
    let passwords = [
        "abc", "a,abc", "a'abc", "a(abc)", "a=abc", "a;abc", "a@abc", "a?abc", "a#abc", "a$abc",
        "a%40abc", "a[abc", "a/abc", "a abc", "a\"abc", "a\tabc",
    ];
    for password in passwords {
        for text in [
            format!("index-url = https://me:{password}@p.example/simple\nx = 1\n"),
            format!("index-url=https://me:{password}@p.example/simple\nx = 1\n"),
            format!("index-url:https://me:{password}@p.example/simple\nx = 1\n"),
            format!("a = https://p.example/ https://me:{password}@p.example/simple\nx = 1\n"),
            format!("proxy=http://me:{password}@p.example\nx = 1\n"),
        ] {
            let Redaction::Part(left) = lines(&text) else {
                panic!("{text}")
            };
            assert!(!left.contains("abc") && left.ends_with("x = 1\n"), "{left}");
        }
    }
    for password in &passwords[..13] {
        let text = format!("proxy = me:{password}@h:3128\nx = 1\n");
        let Redaction::Part(left) = lines(&text) else {
            panic!("{text}")
        };
        assert_eq!(left, "proxy = h:3128\nx = 1\n", "{text}");
    }
    // A token alone: what holds a slash cannot be told from a path.
    for token in &passwords[..12] {
        let text = format!("proxy=http://{token}@h:3128\nx = 1\n");
        let left = lines(&text);
        assert_eq!(
            left,
            Redaction::Part("proxy=http://h:3128\nx = 1\n".to_owned())
        );
    }
}

#[test]
fn what_holds_no_secret_stays_as_it_is() {
    let table = [
        "//r.example/:_authToken=${NODE_AUTH_TOKEN}\nregistry=https://r.example/\n",
        "npmAuthToken: \"${TOKEN}\"\n",
        "//r.example/:certfile=/c.pem\n",
        "# needs a login\nnoproxy=bypass\nalways-auth=true\nnpmAlwaysAuth: true\n",
        "[url \"ssh://git@code.example/\"]\n\tinsteadOf = https://code.example/\n",
        "channels:\n- conda-forge\n- https://c.example/main\n",
        "a = ['https://r.example:8080','https://s.example/@x/y']\n",
        "registry = \"https://r.example:8080\" # of me@example.org\n",
        "alias = log --graph \\\n  --all\n",
        "",
    ];
    for text in table {
        assert_eq!(lines(text), Redaction::Harmless, "{text}");
    }
}

#[test]
fn lists_of_urls_stay_lists() {
    let text = "a = ['https://u:abc@r.example/?abc','https://v@s.example/t/abc']\n";
    let expected = "a = ['https://r.example/','https://s.example/']\n";
    assert_eq!(lines(text), Redaction::Part(expected.to_owned()));
}

#[test]
fn objects_lose_their_secrets_at_any_depth() {
    let text = r#"{"auths":{"r.example":{"auth":"abc","Auth":"abc","email":"a@b"}},"credsStore":"pass",
        "HttpHeaders":{"Authorization":"abc"},"proxies":{"default":{"httpProxy":"http://u:abc@h:1"}}}"#;
    let Redaction::Part(left) = redact(Form::Json, text) else {
        panic!("it holds secrets")
    };
    let kept = ["credsStore", "r.example", "http://h:1", "a@b"];
    assert!(!left.contains("abc"), "{left}");
    assert!(kept.iter().all(|word| left.contains(word)), "{left}");
    let twice = r#"{"auths":{"r":{"auth":"abc"}},"auths":{}}"#;
    assert!(matches!(redact(Form::Json, twice), Redaction::Part(left) if !left.contains("abc")));
    assert_eq!(redact(Form::Json, "no JSON"), Redaction::Unseparable);
}

#[test]
fn odd_json_hides_no_secret() {
    let texts = [
        r#"{"HttpHeaders":{"X-Own":"abc"},"x":1}"#,
        r#"{"auth":{"value":"abc"},"x":1}"#,
        r#"{"auth":["abc"],"x":1}"#,
        r#"{"auths":{"https://me:abc@r.example/v1/":{}},"x":1}"#,
        r#"{"a":"ghp_abcdefghijklmnopqrstuvwxyz0123456789","x":1}"#,
        r#"{"a":["https://me:abc@h","https://me:a abc@h"],"x":1}"#,
        r#"{"\u0061uth":"abc","x":1}"#,
        "\u{feff}{\"auth\":\"abc\",\"x\":1}",
        r#"{"x":1,"a":1,"a":"abc","a":2}"#,
    ];
    for text in texts {
        let Redaction::Part(left) = redact(Form::Json, text) else {
            panic!("{text}")
        };
        assert!(!left.contains("abc"), "{left}");
        assert!(left.contains("\"x\": 1"), "{left}");
    }
    let plain = r#"{ "auths": {"r.example": {}}, "credsStore": "pass", "x": ["https://h:1/"] }"#;
    assert_eq!(redact(Form::Json, plain), Redaction::Harmless);
    let deep = "[".repeat(100_000);
    assert_eq!(redact(Form::Json, &deep), Redaction::Unseparable);
}

#[test]
fn elements_go_whole_and_what_is_left_is_well_formed() {
    let text = "<settings><servers>\n<server><id>x</id><password>abc</password>\n</server></servers>\
        <mirrors><mirror><url>https://u:abc@m.example/</url></mirror></mirrors></settings>";
    let expected =
        "<settings><mirrors><mirror><url>https://m.example/</url></mirror></mirrors></settings>";
    assert_eq!(
        redact(Form::Xml, text),
        Redaction::Part(expected.to_owned())
    );
    for text in [
        "<c><add value=\"abc\" key=\"ClearTextPassword\"/></c>",
        "<property><name>Private-Token</name><value>abc</value></property>",
        "<servers><server>",
        "<servers id=\"x\"><server><id>abc</id></server></servers>",
        "<servers ><server><privateKey>abc</privateKey></server></servers>",
        "<!DOCTYPE s [<!ENTITY p \"abc\">]><s><password>&p;</password></s>",
        "<s><password><![CDATA[</password>abc]]></password></s>",
        "<properties><db.pwd>abc</db.pwd></properties>",
        "<properties><sonar.login>abc</sonar.login></properties>",
        "<c><!-- <password>abc --></c>",
        "<a><b x=\"https://me:a abc@h\"/></a>",
    ] {
        assert_eq!(redact(Form::Xml, text), Redaction::Unseparable, "{text}");
    }
    assert_eq!(redact(Form::Xml, "<c><sources/></c>"), Redaction::Harmless);
    let comment = "<s><!-- it was abc --><password>abc</password><x/></s>";
    assert_eq!(
        redact(Form::Xml, comment),
        Redaction::Part("<s><x/></s>".to_owned())
    );
}

#[test]
fn no_text_takes_long() {
    let pieces = [
        "://",
        "://a:b ",
        "a@",
        "//\\\n",
        "\\\n",
        "a=",
        "token:",
        "{",
        "\"",
        "[token=",
        "#",
        " #",
        "<a>",
        "</",
        "<servers>",
        "eyJ1",
        "a:b@c ",
        "https://a:b@c/t/d,",
        "token=\n\n",
        "-",
        "\r",
    ];
    for piece in pieces {
        let text = piece.repeat((1 << 15) / piece.len());
        let text = format!("{text} @ x\ntoken=1\n");
        for form in [Form::Lines, Form::Json, Form::Xml] {
            let start = Instant::now();
            redact(form, &text);
            // A tenth of a second, where each character is looked at a few times.
            assert!(start.elapsed().as_secs() < 5, "{piece:?} {form:?}");
        }
    }
}

#[test]
fn an_argument_is_recorded_without_what_looks_like_a_secret() {
    for text in [
        "-sS",
        "-jar",
        "install",
        "--version",
        "/srv/app/run.py",
        "-c",
        "",
    ] {
        assert_eq!(redact_argument(text), text);
    }
    let token = format!("ghp_{}", "a1b2c3d4e5f6".repeat(3));
    for (text, shown) in [
        ("--password=hunter2", "--password=\u{2026}"),
        ("API_TOKEN=abc", "API_TOKEN=\u{2026}"),
        ("-pSECRET", "-p\u{2026}"),
        ("-uuser:pass", "-u\u{2026}"),
        (token.as_str(), "\u{2026}"),
        ("Authorization:Bearer x", "Authorization:\u{2026}"),
        ("--header=X-Api: x", "--header=\u{2026}"),
        ("http://u:p@x.test/a?token=y", "http://x.test/a=\u{2026}"),
        ("--url=http://u:p@x.test/a?token=y", "--url=http://x.test/a"),
        ("a\u{1b}[2Jb\n", "a?[2Jb?"),
    ] {
        assert_eq!(redact_argument(text), shown);
    }
    let url = redact_argument("https://user:hunter2@git.test/x");
    assert!(
        url.contains("git.test") && !url.contains("hunter2"),
        "{url}"
    );
    assert_eq!(redact_argument(&"x".repeat(300)).len(), 200);
}
