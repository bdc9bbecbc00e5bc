PREFIX ?= /usr/local
CARGO ?= cargo
TARGET = $(or $(CARGO_TARGET_DIR),target)
CLIPPY = CLIPPY_CONF_DIR=ci $(CARGO) clippy --locked

.PHONY: build test test-workloads test-reference check bench doc notices install help

build: ## build the optimised binary, target/release/srt
	$(CARGO) build --release --locked

test: ## run all tests as whoever calls; the last line counts them
	@ci/test

test-workloads: ## run npm, pip, cargo and git in the sandbox; needs their registries
	@ci/test workloads

test-reference: ## compare verdicts with the program whose settings srt reads; needs npm
	@ci/test reference

check: ## what CI checks besides tests: format, lints, documentation, licences
	$(CARGO) fmt --check
	$(CLIPPY) --all-targets -- -D warnings
	$(CLIPPY) --all-targets --no-default-features -- -D warnings
	$(CLIPPY) --all-targets --features test-hooks -- -D warnings
	$(CLIPPY) --test workloads --test reference -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --no-deps --document-private-items
	ci/licences
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --offline check --config ci/deny.toml licenses bans sources; \
	else \
		echo 'cargo-deny is not installed: ci/licences alone checked the licences'; \
	fi

bench: ## run the benchmarks
	$(CARGO) bench --locked

doc: ## build the library's documentation, target/doc
	$(CARGO) doc --locked --no-deps

notices: ## write the licence texts of all dependencies to target/THIRD-PARTY.txt
	@mkdir -p $(TARGET)
	ci/licences --notices >$(TARGET)/THIRD-PARTY.txt

install: build notices ## install below PREFIX (/usr/local), staged in DESTDIR
	install -Dm755 $(TARGET)/release/srt $(DESTDIR)$(PREFIX)/bin/srt
	install -Dm644 -t $(DESTDIR)$(PREFIX)/share/doc/srt LICENSE NOTICE \
		LICENSES/GPL-3.0-or-later.txt $(TARGET)/THIRD-PARTY.txt

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16
