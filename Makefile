# The words are the same here and in CI. Everything builds without cgo; the
# race detector alone wants a C compiler.

GO ?= go
FUZZTIME ?= 8s
export CGO_ENABLED = 0

.PHONY: build quick test test-all test-fast test-race test-e2e test-browser needs fmt vet lint plain race database outside e2e browser smoke mutants fuzz fuzz-long vulnerabilities gosec sbom conformance seeded-faults restarts reloads cluster crash webhook-kills journal-size console-size journal-fill journal-size-files journal-kills images goals browsers axe examples generators bench bench-ranges overload timing microbench linear update generate script-release sandbox clean

build:
	$(GO) build -trimpath -o threeds ./cmd/threeds

# Everything that must hold before a change goes in, each test once: ten minutes on 2 quiet cores, 16 the first time.
# TESTSLOW=4 holds the run to a quarter of the processor time; the answer has to be the same.
test:
	@$(GO) run ./tools/testrun

# What make test leaves out, too: everything under the race detector, fuzzing, benchmarks, faults put into the code, and
# the long forms of kills, upgrades, rotations, clusters and walks over every page in three browsers. It takes a night.
test-all:
	@$(GO) run ./tools/testrun -all

# The parts of make test that CI runs side by side. SHARD=2/4 is the second of four parts of the packages.
SHARD ?= 1/1
test-fast:
	@$(GO) run ./tools/testrun needs fmt vet lint plain
test-race:
	@$(GO) run ./tools/testrun needs race
test-e2e:
	@$(GO) run ./tools/testrun -shard $(SHARD) needs build e2e
test-browser:
	@$(GO) run ./tools/testrun needs build database browser

# A first answer while you work: packages that need no service, no browser and no
# other process, without vet and the race detector. Under 30 s on 2 quiet cores.
# SLOW are tests of these packages that are long loops, or have long bodies; make test runs them.
SLOW = Alloc|^TestSimulation$$|^TestCrashImages$$|^TestHuge$$|^TestGeneratedCases$$|^TestMutants$$|^TestSingleByteEdits$$|^TestCRResLimit$$|^TestReadPResAgreesWithCheck$$|^TestErrorsQuoteNoValue$$|^TestOpenAfterCrash|^TestKilled$$|^TestCloseEndsSweep$$|^TestSnapshotReusesSpace$$|^TestBesideABusyOne$$|^TestWaitingRefusalsHTTP2$$|^TestLongBodyIsServedAlone$$|^TestReaderYieldsTheProcessor$$
QUICK = . ./message ./internal/state/account ./internal/edge/admin ./internal/edge/api ./internal/engine/auth ./internal/base/browserurl \
	./internal/peers/certs ./internal/run/config ./internal/base/iso ./internal/state/keyring ./internal/base/obs ./internal/peers/ranges \
	./internal/edge/results ./internal/protocol/scheme ./internal/edge/shed ./internal/state/store/sqlite ./internal/protocol/transid ./internal/operate/webhook
quick:
	GOGC=400 $(GO) test -short -vet=off -skip='$(SLOW)' $(QUICK)

# What the tests want of the machine: a C compiler for the race detector, and a
# browser. As root on Debian they are installed; in CI (CI=true) a missing one
# is a failure, elsewhere the tests that need the browser are skipped.
needs:
	@.ci/needs

fmt vet lint plain race database outside e2e browser smoke mutants:
	@$(GO) run ./tools/testrun $@

# Each reader of foreign bytes, for a moment. FUZZTIME=10m for a long night.
fuzz:
	@GO=$(GO) .ci/fuzz $(FUZZTIME)

# The same for a night: ten minutes of a processor for each reader. FUZZTIME=24h is the
# length for a release.
fuzz-long: FUZZTIME = 10m
fuzz-long: fuzz

# A check for each obligation of a 3DS Server, from outside, and a table of them.
conformance:
	@out=$$($(GO) -C testing test ./conformance -count=1 -run='^TestConformance$$' -v); status=$$?; \
		echo "$$out" | grep -vE '^ *(=== |--- PASS)'; exit $$status

# Faults put into the server, one at a time, each noticed by the check of its row: a
# build and a run for each of more than a hundred. A few are part of make test.
seeded-faults:
	SEEDED=all $(GO) -C testing test ./conformance -count=1 -timeout=2h -run='^TestSeededFaults$$' -v

# 200 restarts, and 1,000 reloads, under load, and not a failed request: about 25
# minutes. A few of them are part of make test.
restarts:
	RESTARTS=200 $(GO) -C testing test ./e2e/lifecycle -count=1 -timeout=1h -run='^TestRestarts$$' -v

reloads:
	RELOADS=1000 $(GO) -C testing test ./e2e/lifecycle -count=1 -timeout=1h -run='^TestReload$$' -v

# Both stores against a model of their contract: 100,000 calls at random on each, at
# once, while connections break and processes die. Three to six minutes; a page in
# artifacts/ shows what no order of the calls explains. make test makes some thousand.
linear:
	LINEAR_CALLS=100000 $(GO) -C testing test ./linear/... -count=1 -timeout=30m -run='^TestLinear' -v

# Three nodes on PostgreSQL with synchronous standbys: 400 kills of nodes, 20
# failovers of the primary under load, and what nodes have to do together; about
# ten minutes. make test has a short form. docs/nodes.md says what it shows.
cluster:
	CLUSTER=long $(GO) -C testing test ./e2e/cluster ./e2e/lifecycle ./e2e/api -count=1 -timeout=60m -run='^TestCluster|^TestF5' -v
	$(GO) test ./internal/state/store/postgres -count=1 -run='^TestFailover$$' -v

# Searches by each field, and the end of a day, among RECORDS records of DAYS days in PostgreSQL, of which it prints the
# 95th percentile. The second does the same with files of SQLite. With JOURNAL_DATABASE=postgres://... an empty database is
# filled once, by journal-fill or by the first that needs it, and stays for the next.
RECORDS ?= 10000000
DAYS ?= 30
journal-size:
	JOURNAL_RECORDS=$(RECORDS) JOURNAL_DAYS=$(DAYS) $(GO) test ./internal/state/journal -run='^$$' -bench='SearchOfSize' -benchtime=200x -timeout=6h -v

# Each page of the console that reads the journal, from a server on PostgreSQL: 95th percentile and bytes. A page has 100
# ms on the server and 60 KB.
console-size:
	JOURNAL_RECORDS=$(RECORDS) JOURNAL_DAYS=$(DAYS) $(GO) test ./internal/run/server -run='^$$' -bench='PagesOfSize' -benchtime=100x -timeout=6h -v

journal-fill:
	@test -n "$$JOURNAL_DATABASE" || { echo "journal-fill: want JOURNAL_DATABASE=postgres://..., an empty database"; exit 1; }
	JOURNAL_RECORDS=$(RECORDS) JOURNAL_DAYS=$(DAYS) $(GO) test ./internal/state/journal -run='^$$' -bench='SearchOfSize/none' -timeout=6h -v

journal-size-files:
	JOURNAL_RECORDS=$(RECORDS) JOURNAL_DAYS=$(DAYS) $(GO) test ./internal/state/journal -run='^$$' -bench='FilesOfSize' -benchtime=200x -timeout=6h -v

# The server under load killed 2,000 times on each kind of store, the power of its
# disk lost 1,000 times, the disk full, failing and damaged: about an hour on a quiet
# machine, as root. A hundredth of it is part of make test; CRASH is the number of kills,
# and the rest goes with it.
CRASH ?= 2000
crash:
	@out=$$(CRASH=$(CRASH) $(GO) -C testing test ./e2e/crash -count=1 -run='^TestCrash' -v -timeout=4h); status=$$?; \
		echo "$$out" | grep -vE '^ *(=== |--- PASS)'; exit $$status

# The server killed 200 times on each kind of store between the commit of a result and the
# delivery of its event, and how soon events arrive: about three minutes. A few kills are
# part of make test.
webhook-kills:
	HOOK_KILLS=200 $(GO) -C testing test ./e2e/crash -count=1 -timeout=20m -run='^TestW3NoEventIsLost' -v
	$(GO) test ./client -run='^$$' -bench='ResultToDelivery' -benchtime=500x

# The server killed 200 times under load: each result that it acknowledged is in the journal afterwards. A few kills are
# part of make test.
journal-kills:
	JOURNAL_KILLS=200 $(GO) -C testing test ./e2e/crash -count=1 -timeout=30m -run='^TestD125Nothing' -v

# What a crash leaves, out of a recording of every call of 200 transactions: each call as the
# last one, and 100,000 times any sectors of what was not synced. About an hour.
IMAGES ?= 100000
images:
	IMAGES=$(IMAGES) $(GO) test ./internal/state/store/sqlite -count=1 -timeout=4h -run='^TestCrashImages$$' -v

# The other goals of docs/goals.md whose long forms take hours: a million records, 200 pauses,
# 100 backups, 10,000 records over an upgrade, and SOAK of steady load.
SOAK ?= 2h
goals:
	RECORDS=1000000 PAUSES=200 BACKUPS=100 UPGRADE_RECORDS=10000 SOAK=$(SOAK) $(GO) -C testing test ./e2e/crash ./e2e/cluster ./e2e/lifecycle -count=1 -timeout=24h -v \
		-run='^TestCrashManyRecords$$|^TestCrashPaused$$|^TestD109BackupHasAllBefore$$|^TestD103ForwardAndBackUnderLoad$$|^TestSoak$$'

# What a shopper does, in Chromium, Firefox and WebKit, and a table of it in artifacts/. make test has Chromium alone.
browsers:
	@.ci/needs browsers
	BROWSERS=all $(GO) -C testing test ./browsertest ./browser/... -count=1 -timeout=20m -v \
		-run='^TestB6LookingIntoFramesKeepsTheFocus$$|^TestB6AKeyMayRemoveItsFrame$$|^TestD62ATabThatWaitsEnds$$|^TestB6Grid$$'

# What axe-core finds on the pages that people see, in Chromium, in light and dark, wide and on a phone: about three
# minutes. It needs a registry of npm, so make test does without.
axe:
	@.ci/needs axe
	@mkdir -p artifacts/axe && cp .ci/axe/package.json .ci/axe/package-lock.json artifacts/axe/
	@cd artifacts/axe && npm ci --ignore-scripts --no-audit --no-fund
	AXE=$(CURDIR)/artifacts/axe/node_modules/axe-core/axe.min.js $(GO) -C testing test -count=1 -timeout=20m -run='Axe' -v \
		./browser/...

# The programs of docs/quickstart.md, as they are printed, in Go, Node, Python, PHP and
# Java. Those in Go and Node are part of make test.
examples:
	@.ci/needs examples
	EXAMPLES=$$([ -z "$$CI" ] && echo found || echo all) $(GO) test ./threedstest -count=1 -run='^TestQuickstart$$' -v

# What three generators of clients make of docs/openapi.yaml: it has to be all operations, without a warning, and to
# compile. It needs a module proxy, and a registry of npm for the third, so make test does without.
generators:
	@GO=$(GO) .ci/generators

# The figures that are promised, beside their targets: about fifteen minutes, to be
# believed on a quiet machine only (testing/bench/README.md). BENCH="auth rreq" measures
# those two alone.
bench:
	$(GO) -C testing run ./bench $(BENCH)

# Five times what can be served: how much is served then, what the others are told,
# how soon all is well again; and ten thousand slow connections. About three
# minutes. The short form is part of make test.
overload:
	$(GO) -C testing run ./bench overload

# Card ranges at 10 thousand, 200 thousand and 2 million: look-up, reading of a
# PRes, updates, snapshots; then /preauth with 2 million of them, and memory and
# /preauth while 2 million load. About six minutes.
bench-ranges:
	$(GO) test -run='^$$' -bench='Lookup|ReadPRes|Apply|Snapshot' -benchmem ./internal/peers/ranges
	$(GO) -C testing run ./bench preauth ranges inplace

# Whether the time of an answer tells that an id is another merchant's: 75,000 pairs, on
# a quiet machine, in ten seconds.
timing:
	TIMING=1 $(GO) test ./internal/engine/auth -count=1 -run='^TestTimeTellsNothingOfForeignIDs$$' -v

# The benchmarks of the packages, with allocations.
microbench:
	$(GO) test -run='^$$' -bench=. -benchmem ./...

# Known vulnerabilities that the code can reach. It needs a module proxy, so make test does
# without. The reports are those of the module golang.org/x/vulndb; VULNDB=URL names another
# database.
vulnerabilities:
	@GO=$(GO) VULNDB=$(VULNDB) .ci/vulnerabilities

# Weaknesses that gosec sees, except those that .ci/gosec-exceptions explains. It takes some
# minutes and a module proxy, so make lint does without.
gosec:
	@GO=$(GO) .ci/gosec

# The bill of materials of the built program, as CycloneDX, in artifacts/threeds.cdx.json.
sbom: build
	@GO=$(GO) .ci/sbom threeds artifacts/threeds.cdx.json

# Rewrite what is generated and what tests compare with; then read the diff.
update: generate
	@for pkg in $$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -n1 dirname | sort -u); do \
		echo "$(GO) -C $$pkg test . -update"; $(GO) -C $$pkg test . -update || exit 1; done

generate:
	$(GO) generate ./...

# For a release: keep threeds.js as that of the version in web/package.json. It stays served at
# its address until five later versions were kept. Commit what it writes in web/releases.
script-release:
	$(GO) -C tools/bundle run . -release

sandbox:
	$(GO) run ./cmd/threeds sandbox

clean:
	rm -rf threeds artifacts
