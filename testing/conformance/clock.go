package conformance

// This file is one idea: a clock that can be turned. A check cannot wait for an hour. It opens the store beside the
// server, as another process on the machine may, and moves the times that the server has noted there to the past. For
// the server as much time has gone by.

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// statusPoll is the time within which a server reads again what it has noted about card ranges, since other nodes write
// there too.
const statusPoll = 5 * time.Second

// openStore opens the store of the server, which may be running.
func (l *lab) openStore(t *T) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(l.dir, "data", "threeds.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatalf("store: %v", err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// turnClock lets the server believe that so much more time has gone by since its latest PReq to the
// directory server of a scheme. Before that it waits until the server has noted what came of that PReq: its
// next one is due after the least.
func (l *lab) turnClock(t *T, scheme string, by, least time.Duration) {
	db := l.openStore(t)
	defer db.Close()
	var next time.Time
	noted := func() bool {
		status, err := readStatus(db, scheme)
		if err != nil {
			t.Fatalf("store: %v", err)
		}
		next, _ = time.Parse(time.RFC3339Nano, status.text("next"))
		return time.Until(next) > least
	}
	if !waitUntil(stepTimeout, noted) {
		t.Fatalf("%s: the next PReq is due in %v, want %v at least", scheme, time.Until(next), least)
	}
	if err := moveTimes(db, scheme, by); err != nil {
		t.Fatalf("store: %v", err)
	}
}

// statusKey is the key of what a server has noted about the card ranges of a scheme.
func statusKey(scheme string) string { return "ranges/" + scheme }

func readStatus(db *sql.DB, scheme string) (object, error) {
	var data []byte
	err := db.QueryRowContext(context.Background(), "SELECT value FROM small_states WHERE key = ?", statusKey(scheme)).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return read(data), err
}

// moveTimes moves all times in what is noted about a scheme to the past.
func moveTimes(db *sql.DB, scheme string, by time.Duration) error {
	ctx := context.Background()
	status, err := readStatus(db, scheme)
	if err != nil {
		return err
	}
	for name, value := range status {
		text, _ := value.(string)
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			status[name] = at.Add(-by).Format(time.RFC3339Nano)
		}
	}
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "UPDATE small_states SET value = ? WHERE key = ?", data, statusKey(scheme))
	return err
}

// wantPReqAfter wants no PReq to come shortly before a time has gone by since the latest one, and one shortly after.
func (a *scriptedDS) wantPReqAfter(t *T, pause time.Duration) {
	const short = 30 * time.Second
	a.lab.turnClock(t, a.scheme, pause-short, pause-time.Minute)
	a.wantNoPReq(t, statusPoll+500*time.Millisecond)
	if a.pending != nil {
		return // it has come too early
	}
	a.lab.turnClock(t, a.scheme, 2*short, 0)
	a.pending = a.nextPReq(t)
}

// turnExpiry lets so much time go by for a transaction in the store, and wants that to be the end of it.
func (l *lab) turnExpiry(t *T, id string, by time.Duration) {
	db := l.openStore(t)
	defer db.Close()
	ctx := context.Background()
	var expires int64 // milliseconds since 1970
	err := db.QueryRowContext(ctx, "UPDATE txns SET expires = expires - ? WHERE id = ? RETURNING expires", by.Milliseconds(), id).Scan(&expires)
	if err != nil {
		t.Fatalf("store: %v", err)
	}
	if left := time.Until(time.UnixMilli(expires)); left > 0 {
		t.Errorf("a transaction is kept for another %v, want %v at most", left+by, by)
	}
}
