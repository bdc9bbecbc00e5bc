PREFIX ?= /usr/local
CARGO ?= cargo
TARGET = $(or $(CARGO_TARGET_DIR),target)
SRT = $(TARGET)/release/srt
SHARE = $(DESTDIR)$(PREFIX)/share
FUZZ_TARGETS = dns head hello pattern socks settings
FUZZ_SECONDS ?= 3600
CLIPPY = CLIPPY_CONF_DIR=ci $(CARGO) clippy --locked

.PHONY: build test test-workloads test-reference check fuzz bench doc docs notices install help

build: ## build the optimised binary, target/release/srt
	$(CARGO) build --release --locked

test: ## run all tests as whoever calls; the last line counts them
	@ci/test

test-workloads: ## run package managers, git and other clients in the sandbox; needs registries
	@ci/test workloads

test-reference: ## compare verdicts with the program whose settings srt reads; needs npm
	@ci/test reference

check: ## what CI checks besides tests: format, lints, documentation, licences
	$(CARGO) fmt --check
	$(CLIPPY) --all-targets -- -D warnings
	$(CLIPPY) --all-targets --no-default-features -- -D warnings
	$(CLIPPY) --all-targets --features test-hooks -- -D warnings
	$(CLIPPY) --test workloads --test clients --test reference -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --no-deps --document-private-items
	ci/licences
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --offline check --config ci/deny.toml licenses bans sources; \
	else \
		echo 'cargo-deny is not installed: ci/licences alone checked the licences'; \
	fi

fuzz: ## run each fuzz target for an hour, with cargo-fuzz and nightly if they are there
	@if $(CARGO) +nightly fuzz --version >/dev/null 2>&1; then \
		cd fuzz && for target in $(FUZZ_TARGETS); do \
			$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
		done; \
	else \
		echo 'cargo-fuzz or nightly is missing: changes are drawn without looking at coverage'; \
		SRT_FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --locked --lib fuzzing -- --test-threads 5; \
	fi
	SRT_TEST_STREAM=10737418240 $(CARGO) test --locked --release --test egress long_stream

bench: ## run the benchmarks
	$(CARGO) bench --locked --features test-hooks --bench files
	$(CARGO) bench --locked

doc: ## build the library's documentation, target/doc
	$(CARGO) doc --locked --no-deps

docs: ## write what docs/settings.md and docs/events.* take from tables of the source
	SRT_WRITE_DOCS=1 $(CARGO) test --locked --lib -- settings::reference audit::schema

notices: ## write the licence texts of all dependencies to target/THIRD-PARTY.txt
	@mkdir -p $(TARGET)
	ci/licences --notices >$(TARGET)/THIRD-PARTY.txt

install: build notices ## install below PREFIX (/usr/local), staged in DESTDIR
	install -Dm755 $(SRT) $(DESTDIR)$(PREFIX)/bin/srt
	install -Dm644 -t $(SHARE)/doc/srt LICENSE NOTICE \
		LICENSES/GPL-3.0-or-later.txt $(TARGET)/THIRD-PARTY.txt
	mkdir -p $(TARGET)/share
	$(SRT) ctl man srt >$(TARGET)/share/srt.1
	$(SRT) ctl man srt-settings >$(TARGET)/share/srt-settings.5
	$(SRT) ctl schema >$(TARGET)/share/settings.schema.json
	$(SRT) ctl completions bash >$(TARGET)/share/srt.bash
	$(SRT) ctl completions zsh >$(TARGET)/share/_srt
	$(SRT) ctl completions fish >$(TARGET)/share/srt.fish
	install -Dm644 $(TARGET)/share/srt.1 $(SHARE)/man/man1/srt.1
	install -Dm644 $(TARGET)/share/srt-settings.5 $(SHARE)/man/man5/srt-settings.5
	install -Dm644 $(TARGET)/share/settings.schema.json $(SHARE)/srt/settings.schema.json
	install -Dm644 $(TARGET)/share/srt.bash $(SHARE)/bash-completion/completions/srt
	install -Dm644 $(TARGET)/share/_srt $(SHARE)/zsh/site-functions/_srt
	install -Dm644 $(TARGET)/share/srt.fish $(SHARE)/fish/vendor_completions.d/srt.fish

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16
