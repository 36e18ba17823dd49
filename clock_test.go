package threeds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clockToBeMoved are directories and files whose tests may still wait by the clock. This list shall become empty.
var clockToBeMoved = []string{}

// clockSupport are packages that exist for tests alone, though their files do not end in _test.go.
var clockSupport = []string{
	"internal/state/journal/journaltest", "internal/state/store/postgres/pgtest", "internal/base/waittest", "message/messagetest",
	"testing/conformance",
}

// Reasons why a function may use the clock.
const (
	inBubbles = "it is called in bubbles only, by way of code that is under test or of a table"
	isPace    = "it is how fast a peer is, or the moment that a test varies: nothing waits for it"
	isPaused  = "a process is paused, so that nothing but time passes"
	isKill    = "a random moment before a process is killed"
	isSuite   = "the conformance suite judges other servers, so what does not happen has to end some time"
)

// clockAllowed are the functions that may use the clock, with the reason.
var clockAllowed = map[string]string{
	"client ExampleClient_PostAuth":              "it shows what a program does that waits for a result",
	"internal/state/account Key":                 inBubbles,
	"internal/engine/auth step":                  inBubbles,
	"internal/peers/directory PutSnapshot":       inBubbles,
	"internal/peers/directory askFor":            inBubbles,
	"internal/peers/directory exchange":          inBubbles,
	"internal/peers/directory pauseAtRandom":     isPace,
	"internal/edge/api serve":                    "its engines take their time, in bubbles but for one test",
	"internal/edge/results Receive":              inBubbles,
	"internal/state/store/postgres restAtRandom": isPace,
	"internal/state/store/postgres/pgtest Start": "it polls a server that starts, and is given no test",
	"internal/state/store/storetest pause":       inBubbles,
	"sandbox/shop RoundTrip":                     inBubbles,
	"internal/peers/tunnel drip":                 isPace,
	"internal/base/waittest Until":               "it polls, without a time limit of its own",
	"testing/conformance beSlow":                 isPace,
	"testing/conformance call":                   "the limits of a remote server are not those of the suite",
	"testing/conformance dropPReqs":              isSuite,
	"testing/conformance killDuringUpdate":       isPace,
	"testing/conformance letConnectionEnd":       isSuite,
	"testing/conformance nextPReq":               isSuite,
	"testing/conformance waitUntil":              isSuite,
	"testing/conformance wantNoPReq":             isSuite,
	"testing/linear/postgres runLinear":          isPace,

	"testing/e2e/api TestSlowStore":                                              isPace,
	"testing/e2e/api TestStrangersDoNotShutOutNewClients":                        isPace,
	"testing/e2e/cluster flow":                                                   "a directory server that tries again pauses",
	"testing/e2e/cluster TestClusterFailover":                                    isPace,
	"testing/e2e/crash killLoop":                                                 isKill,
	"testing/e2e/crash TestCrashPaused":                                          isPaused,
	"testing/e2e/crash TestD125NothingIsLostFromTheJournalWhenTheServerIsKilled": isKill,
	"testing/e2e/crash killBeforeDelivery":                                       isKill,
	"testing/e2e/lifecycle TestReload":                                           isPace,
	"testing/e2e/lifecycle TestRestarts":                                         isPace,
	"testing/e2e/ranges TestEdgesInTime":                                         isPace,
	"testing/e2e/ranges killsDuringLoad":                                         isKill,
}

// TestNoTestWaitsByTheClock: a test waits for an event, polls with waittest.Until, or runs in a bubble of
// testing/synctest, where time costs nothing. One that waits by the clock on the wall fails on a busy machine.
//
// No test calls time.Sleep or time.After outside of a bubble. In a bubble is
//   - a function literal that is passed to synctest.Test, or to a function that passes its parameter
//     on to synctest.Test,
//   - a function of a table (a composite literal) in a function that calls synctest.Test,
//   - a function that the package uses in bubbles only.
func TestNoTestWaitsByTheClock(t *testing.T) {
	packages := map[string]*testCode{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		dir := path.Dir(file)
		isTest := strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".go") && slices.Contains(clockSupport, dir)
		if d.IsDir() || !isTest || slices.Contains(clockToBeMoved, dir) || slices.Contains(clockToBeMoved, file) {
			return nil
		}
		if packages[dir] == nil {
			packages[dir] = &testCode{files: token.NewFileSet()}
		}
		return packages[dir].parse(file)
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		for _, call := range packages[dir].clockCalls() {
			name := dir + " " + call.function
			if used[name] = true; clockAllowed[name] == "" {
				t.Errorf("%s: %s waits by the clock in %s: wait for an event, call waittest.Until, or use a bubble of testing/synctest",
					packages[dir].files.Position(call.at), call.name, call.function)
			}
		}
	}
	for name := range clockAllowed {
		if !used[name] {
			t.Errorf("clockAllowed has %s, which does not use the clock", name)
		}
	}
	if len(packages) < 40 {
		t.Errorf("only %d packages with tests were found", len(packages))
	}
}

// TestClockRule: a sleep is found unless it is in a bubble.
func TestClockRule(t *testing.T) {
	const source = `package x
func TestSleeps(t *testing.T) { time.Sleep(1) }
func TestBubble(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1); inside() }) }
func TestLimit(t *testing.T) { select { case <-c: case <-time.After(1): } }
func bubble(t *testing.T, do func()) { synctest.Test(t, func(t *testing.T) { do() }) }
func TestWrapped(t *testing.T) { bubble(t, func() { time.Sleep(1); inside(); both() }) }
func TestTable(t *testing.T) {
	for _, f := range []func(){func() { time.Sleep(1) }} { synctest.Test(t, func(*testing.T) { f() }) }
	time.Sleep(1)
}
func TestOtherTable(t *testing.T) { _ = []func(){func() { time.Sleep(1) }} }
func TestBoth(t *testing.T) { both() }
func inside() { time.Sleep(1) }
func both() { time.Sleep(1) }
func unused() { time.Sleep(1) }
`
	p := &testCode{files: token.NewFileSet()}
	if err := p.parseSource("x_test.go", source); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, call := range p.clockCalls() {
		got = append(got, call.function+" "+call.name)
	}
	want := []string{
		"TestSleeps time.Sleep", "TestLimit time.After", "TestTable time.Sleep", "TestOtherTable time.Sleep",
		"both time.Sleep", "unused time.Sleep",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// testCode is the test code of a package.
type testCode struct {
	files     *token.FileSet
	functions []*ast.FuncDecl
	others    []ast.Decl // declarations of variables
	wrappers  map[string]bool
}

// A use is where a name is used.
type use struct {
	name     string // such as time.Sleep, or inside
	function string // the function that uses the name
	inBubble bool
	at       token.Pos
}

func (p *testCode) parse(file string) error { return p.parseSource(file, nil) }

func (p *testCode) parseSource(file string, source any) error {
	f, err := parser.ParseFile(p.files, file, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		if function, ok := d.(*ast.FuncDecl); !ok {
			p.others = append(p.others, d)
		} else if function.Body != nil {
			p.functions = append(p.functions, function)
		}
	}
	return nil
}

// clockCalls are the uses of time.Sleep and time.After outside of bubbles.
func (p *testCode) clockCalls() (calls []use) {
	p.findWrappers()
	var uses []use
	for _, d := range p.others {
		uses = append(uses, p.usesIn(d, "", false)...)
	}
	isLocal := map[string]bool{} // functions that may be in bubbles only
	for _, f := range p.functions {
		uses = append(uses, p.usesIn(f.Body, f.Name.Name, p.callsBubble(f))...)
	}
	for _, f := range p.functions {
		isUsed := slices.ContainsFunc(uses, func(u use) bool { return u.name == f.Name.Name })
		isLocal[f.Name.Name] = isUsed && !strings.HasPrefix(f.Name.Name, "Test")
	}
	for isChanged := true; isChanged; {
		isChanged = false
		for _, u := range uses {
			if isLocal[u.name] && !u.inBubble && !isLocal[u.function] {
				isLocal[u.name], isChanged = false, true
			}
		}
	}
	for _, u := range uses {
		if (u.name == "time.Sleep" || u.name == "time.After") && !u.inBubble && !isLocal[u.function] {
			calls = append(calls, u)
		}
	}
	return calls
}

// findWrappers finds the functions that pass a parameter on to synctest.Test.
func (p *testCode) findWrappers() {
	p.wrappers = map[string]bool{}
	for _, f := range p.functions {
		parameters := map[string]bool{}
		for _, field := range f.Type.Params.List {
			for _, name := range field.Names {
				if _, isFunction := field.Type.(*ast.FuncType); isFunction {
					parameters[name.Name] = true
				}
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && nameOf(call.Fun) == "synctest.Test" {
				for _, u := range p.usesIn(call, "", false) {
					p.wrappers[f.Name.Name] = p.wrappers[f.Name.Name] || parameters[u.name]
				}
			}
			return true
		})
	}
}

// isBubble reports whether a call runs its arguments in a bubble.
func (p *testCode) isBubble(call *ast.CallExpr) bool {
	name := nameOf(call.Fun)
	return name == "synctest.Test" || p.wrappers[name[strings.LastIndex(name, ".")+1:]]
}

// callsBubble reports whether a function has a bubble.
func (p *testCode) callsBubble(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.isBubble(call) {
			found = true
		}
		return !found
	})
	return found
}

// usesIn are the uses of names in a node of a function. Tables are in a bubble if the function has one.
func (p *testCode) usesIn(root ast.Node, function string, tablesInBubble bool) (uses []use) {
	var walk func(n ast.Node, inBubble bool)
	walk = func(n ast.Node, inBubble bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if p.isBubble(n) {
					walk(n.Fun, inBubble)
					for _, argument := range n.Args {
						walk(argument, true)
					}
					return false
				}
			case *ast.CompositeLit:
				for _, element := range n.Elts {
					walk(element, inBubble || tablesInBubble)
				}
				return false
			case *ast.SelectorExpr:
				if name := nameOf(n); strings.HasPrefix(name, "time.") {
					uses = append(uses, use{name, function, inBubble, n.Pos()})
				} else {
					uses = append(uses, use{n.Sel.Name, function, inBubble, n.Pos()})
				}
				walk(n.X, inBubble)
				return false
			case *ast.Ident:
				uses = append(uses, use{n.Name, function, inBubble, n.Pos()})
			}
			return true
		})
	}
	walk(root, false)
	return uses
}

// nameOf is the name of a function that is called, such as synctest.Test.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	}
	return ""
}
