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
        "[registries.my]\nindex = \"sparse+https://x.example/\" # needs a token here\n",
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
fn a_secret_that_goes_on_in_other_lines_leaves_nothing() {
    let open = [
        "token = \"\"\"\nabc\"\"\"\n",
        "token = \"\"\"x\nabc\"\"\"\n",
        "npmAuthToken: >-\n  abc\n",
        "secret: |\n  abc\n",
        "xPassword=\\\nabc\n",
        "token = <<E\nabc\nE\n",
        "password: \"a\nabc\"\n",
        "token = [\n\"abc\"\n]\n",
    ];
    for text in open {
        assert_eq!(lines(text), Redaction::Unseparable, "{text}");
    }
    let nested = "password:\n  abc\nnodeLinker: pnp\n";
    assert_eq!(
        lines(nested),
        Redaction::Part("nodeLinker: pnp\n".to_owned())
    );
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
    ] {
        assert_eq!(redact(Form::Xml, text), Redaction::Unseparable, "{text}");
    }
    assert_eq!(redact(Form::Xml, "<c><sources/></c>"), Redaction::Harmless);
}
