# The words are the same here and in CI. Everything builds without cgo; the
# race detector alone wants a C compiler.

GO ?= go
FUZZTIME ?= 8s
export CGO_ENABLED = 0

.PHONY: build checker docs pictures quick test test-all fuzz conformance bench vulnerabilities gosec sbom release-check update generate sandbox clean

build:
	$(GO) build -trimpath -o threeds ./cmd/threeds

# The checker of messages that the documentation has, as WebAssembly. go build -tags checker ./cmd/threeds has it then.
checker:
	$(GO) run ./tools/checker

# The documentation as a site in artifacts/docs, with the checker. Links, pictures and searches are tested first.
docs: checker
	$(GO) test -tags checker ./docs ./internal/edge/docsite
	$(GO) run -tags checker ./cmd/threeds docs export artifacts/docs

# The pictures of shop and console in docs/images/pages, in both colours, by Chromium in a sandbox.
pictures:
	$(GO) -C testing test ./browser/sandbox -count=1 -run='^TestPicturesOfShopAndConsole$$' -v -pictures

# Everything that must hold before a change goes in, each test once: ten minutes on 2 quiet cores, 16 the first time.
# TESTSLOW=4 holds the run to a quarter of the processor time; the answer has to be the same.
test:
	@$(GO) run ./tools/testrun

# What make test leaves out, too: everything under the race detector, fuzzing, benchmarks, faults put into the code, and
# the long forms of kills, upgrades, rotations, clusters and walks over every page in three browsers. It takes a night.
# Parts of it can be run alone: go -C testing run ./long.
test-all:
	@$(GO) run ./tools/testrun -all

# A first answer while you work: packages that need no service, no browser and no
# other process, without vet and the race detector. Under 30 s on 2 quiet cores.
# SLOW are tests of these packages that are long loops, or have long bodies; make test runs them.
SLOW = Alloc|^TestE3AuthAndExplainAgree$$|^TestE3CreateAndExplainAgree$$|^TestPR22|^TestGeneratedSetsAreAsDescribed$$|^TestSnapshotWithFalseClaimsIsRefused$$|^TestSimulation$$|^TestCrashImages$$|^TestHuge$$|^TestGeneratedCases$$|^TestMutants$$|^TestSingleByteEdits$$|^TestCRResLimit$$|^TestReadPResAgreesWithCheck$$|^TestErrorsQuoteNoValue$$|^TestOpenAfterCrash|^TestKilled$$|^TestCloseEndsSweep$$|^TestSnapshotReusesSpace$$|^TestBesideABusyOne$$|^TestWaitingRefusalsHTTP2$$|^TestLongBodyIsServedAlone$$|^TestReaderYieldsTheProcessor$$|^TestManyLookupsDuringSwaps$$
QUICK = . ./message ./internal/state/account ./internal/edge/admin ./internal/edge/api ./internal/engine/auth ./internal/engine/check \
	./internal/engine/session ./internal/engine/txn ./internal/base/browserurl \
	./internal/peers/certs ./internal/run/config ./internal/base/iso ./internal/state/keyring ./internal/base/obs ./internal/peers/ranges \
	./internal/edge/results ./internal/protocol/scheme ./internal/edge/shed ./internal/state/store/sqlite ./internal/protocol/transid ./internal/operate/webhook
quick:
	GOGC=400 $(GO) test -short -vet=off -skip='$(SLOW)' $(QUICK)

# Each reader of foreign bytes, for a moment. FUZZTIME=10m is a night, FUZZTIME=24h the length for a release.
fuzz:
	@GO=$(GO) .ci/fuzz $(FUZZTIME)

# A check for each obligation of a 3DS Server, from outside, and a table of them.
conformance:
	@out=$$($(GO) -C testing test ./conformance -count=1 -run='^TestConformance$$' -v); status=$$?; \
		echo "$$out" | grep -vE '^ *(=== |--- PASS)'; exit $$status

# The figures that are promised, beside their targets: about fifteen minutes, to be
# believed on a quiet machine only (testing/bench/README.md). BENCH="auth rreq" measures
# those two alone.
bench:
	$(GO) -C testing run ./bench $(BENCH)

# Known vulnerabilities that the code can reach. It needs a module proxy, so make test does
# without. The reports are those of the module golang.org/x/vulndb; VULNDB=URL names another
# database.
vulnerabilities:
	@GO=$(GO) VULNDB=$(VULNDB) .ci/vulnerabilities

# Weaknesses that gosec sees, except those that .ci/gosec-exceptions explains. It takes some
# minutes and a module proxy, so make test does without.
gosec:
	@GO=$(GO) .ci/gosec

# The bill of materials of the built program, as CycloneDX, in artifacts/threeds.cdx.json.
sbom: build
	@GO=$(GO) .ci/sbom threeds artifacts/threeds.cdx.json

# Everything of a release, built twice, compared, installed, upgraded, run and removed, as root on Linux: see
# docs/operating/releases.md. CHECK="-platform linux/amd64" builds for one platform alone.
release-check:
	@.ci/needs release
	@$(GO) -C tools/release run . check $(CHECK)

# Rewrite what is generated and what tests compare with; then read the diff.
update: generate
	@for pkg in $$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -n1 dirname | sort -u); do \
		echo "$(GO) -C $$pkg test . -update"; $(GO) -C $$pkg test . -update || exit 1; done

generate:
	$(GO) generate ./...

sandbox:
	$(GO) run ./cmd/threeds sandbox

clean:
	rm -rf threeds artifacts
