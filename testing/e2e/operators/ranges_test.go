package operators

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/ranges/rangestest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// scriptCommands are what scripts have beside threeds.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"seed":    seed,
	"pres":    writePRes,
	"gzip":    zip,
	"cut":     cut,
	"parse":   parseCSV,
	"lease":   takeLease,
	"request": checkRequest,
	"refuse":  refuseWrites,
	"field":   setField,
	"sign":    signDelivery,
	"user":    addUser,
	"certify": certify,
}

// seed SCHEME GENERATION FILE puts what a node would put into the store: the
// PRes in FILE as the next generation; without one FILE is -. GENERATION is
// "held", or "damaged" for one that cannot be read, or anything else. Then come
// members of the Standing: age, next, earliest and asked are durations around
// now, fault is a text, from an address.
func seed(ts *testscript.TestScript, _ bool, args []string) {
	scheme, word, file := args[0], args[1], args[2]
	ctx := context.Background()
	db := scriptStore(ts)
	defer db.Close()
	status, err := directory.ReadRefreshStatus(ctx, db, scheme)
	ts.Check(err)
	lease, err := db.Acquire(ctx, "ranges/"+scheme, "test", time.Minute)
	ts.Check(err)
	if file != "-" {
		put(ts, db, lease, &status, scheme, word, ts.ReadFile(file))
	}
	now := time.Now().UTC()
	for _, arg := range args[3:] {
		name, value, _ := strings.Cut(arg, "=")
		d, err := time.ParseDuration(value)
		if err != nil && name != "fault" && name != "from" {
			ts.Fatalf("seed: %v", err)
		}
		switch name {
		case "age":
			status.Loaded = now.Add(-d)
		case "asked":
			status.Asked = now.Add(-d)
		case "next":
			status.Next = now.Add(d)
		case "earliest":
			status.Earliest = now.Add(d)
		case "from":
			status.From = value
		case "fault":
			status.Fault, status.FaultAt = value, now.Add(-2*time.Minute)
		}
	}
	value, err := json.Marshal(status)
	ts.Check(err)
	ts.Check(db.PutState(ctx, "ranges/"+scheme, value, lease))
	ts.Check(db.Release(ctx, lease))
}

// scriptStore opens the store of a script.
func scriptStore(ts *testscript.TestScript) *sqlite.DB {
	dir := ts.MkAbs("threeds-data")
	ts.Check(os.MkdirAll(dir, 0o700))
	db, err := sqlite.Open(dir, sqlite.Options{})
	ts.Check(err)
	return db
}

// put stores a PRes as a generation and notes it in the status.
func put(ts *testscript.TestScript, db *sqlite.DB, lease store.Lease, status *directory.RefreshStatus, scheme, word, pres string) {
	response, problems, err := ranges.ReadPRes(strings.NewReader(pres), ranges.Options{})
	ts.Check(err)
	if len(problems) > 0 {
		ts.Fatalf("seed: %v", problems)
	}
	g, problems := response.Next(nil)
	if len(problems) > 0 {
		ts.Fatalf("seed: %v", problems)
	}
	g.Scheme, g.Loaded = scheme, time.Now().UTC()
	var content bytes.Buffer
	_, err = g.WriteTo(&content)
	ts.Check(err)
	s := store.Snapshot{Scheme: scheme, Generation: status.Generation + 1}
	switch word {
	case "held":
		s.Scheme, s.Generation = scheme+"/held", status.Held+1
		status.Held, status.HeldRanges = s.Generation, g.Len()
	case "damaged":
		content.Bytes()[content.Len()/2]++
		fallthrough
	default:
		status.Generation, status.Ranges, status.Serial = s.Generation, g.Len(), g.Serial
		status.Version, status.Loaded = g.Version.String(), g.Loaded
	}
	ts.Check(db.PutSnapshot(context.Background(), s, lease, &content, 3))
}

// pres FILE RANGES VERSION SEED writes a PRes of some size, or with the version
// "file" a card range file.
func writePRes(ts *testscript.TestScript, _ bool, args []string) {
	var n, seed int
	_, err := fmt.Sscan(args[1]+" "+args[3], &n, &seed)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	pres := rangestest.PRes{Version: args[2], Serial: "s" + args[3]}
	if args[2] == "file" {
		pres.Version, pres.File = "2.3.1", true
	}
	ts.Check(rangestest.Set{Ranges: n, Seed: uint64(seed)}.Write(f, pres))
	ts.Check(f.Close())
}

// gzip FILE makes FILE.gz.
func zip(ts *testscript.TestScript, _ bool, args []string) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".gz"), b.Bytes(), 0o600))
}

// cut FILE HALF writes the first half of a file.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:len(text)/2]), 0o600))
}

// lease SCHEME is what a node does that asks the directory server.
func takeLease(ts *testscript.TestScript, _ bool, args []string) {
	db := scriptStore(ts)
	defer db.Close()
	_, err := db.Acquire(context.Background(), "ranges/"+args[0], "node", time.Minute)
	ts.Check(err)
}

// refuse has the store fail when a generation or a request is written.
func refuseWrites(ts *testscript.TestScript, _ bool, _ []string) {
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs("threeds-data/threeds.db"))
	ts.Check(err)
	defer db.Close() // what was written is written
	for _, table := range []string{"snapshots", "small_states"} {
		_, err := db.Exec("CREATE TRIGGER refuse_" + table + " BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
		ts.Check(err)
	}
}

// request SCHEME TEXT checks that a refresh request with that text was left.
func checkRequest(ts *testscript.TestScript, _ bool, args []string) {
	db := scriptStore(ts)
	defer db.Close()
	value, err := db.State(context.Background(), "ranges/"+args[0]+"/wish")
	ts.Check(err)
	if !strings.Contains(string(value), args[1]) {
		ts.Fatalf("the request is %s", value)
	}
}

// exportColumns are the columns of an export, in the words of the protocol.
const exportColumns = "start end acsProtocolVersions threeDSMethodURL acsInfoInd supportedMsgExt dsProtocolVersions issuerCountryCode"

// parse FILE RECORDS is whether the file is CSV with so many records, the first
// of which names the columns.
func parseCSV(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	ts.Check(err)
	if fmt.Sprint(len(all)) != args[1] || strings.Join(all[0], " ") != exportColumns {
		ts.Fatalf("%d records, the first %q", len(all), all[0])
	}
	if strings.Count(text, "\r\n") != len(all) {
		ts.Fatalf("lines do not end as RFC 4180 wants it")
	}
}
