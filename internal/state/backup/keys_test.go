package backup

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A handover is what a rotation of the key file leaves in a store.
type handover struct {
	ID     string    `json:"id"`
	From   string    `json:"from"`
	Sealed []byte    `json:"sealed,omitempty"`
	Phase  string    `json:"phase"`
	UsedAt time.Time `json:"usedAt"`
}

func handoverOf(n int, sealed string) handover {
	return handover{ID: string(rune('a' + n)), From: string(rune('a' + n - 1)), Sealed: []byte(sealed), Phase: "done", UsedAt: at.AddDate(0, 0, n)}
}

// putRotations puts rotations into a store.
func putRotations(t *testing.T, st store.Store, all ...handover) {
	t.Helper()
	lease, err := st.Acquire(t.Context(), "key rotation", "me", time.Hour)
	must(t, err)
	data, err := json.Marshal(all)
	must(t, err)
	must(t, st.PutState(t.Context(), "key rotation", data, lease))
}

// wantRotations checks which rotations a store has, and what is sealed in each.
func wantRotations(t *testing.T, name string, st store.Store, want string) {
	t.Helper()
	data, err := st.State(t.Context(), "key rotation")
	must(t, err)
	var all []handover
	must(t, json.Unmarshal(data, &all))
	var got []string
	for _, h := range all {
		got = append(got, h.ID+" "+string(h.Sealed))
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s: the store has the rotations %q, want %q", name, text, want)
	}
}

// TestO1BackupHoldsTheRotations: a restore brings the sealed secrets back, into either kind of store. A store that has
// rotated since the backup also keeps its own secrets.
func TestO1BackupHoldsTheRotations(t *testing.T) {
	for name, open := range map[string]func(*testing.T) archive{"sqlite": openDir, "postgres": openDatabase} {
		t.Run(name, func(t *testing.T) {
			source := open(t)
			fill(t, source)
			without := backUp(t, source)
			putRotations(t, source, handoverOf(1, "first"), handoverOf(2, "second"))
			file := backUp(t, source)

			empty := open(t)
			_, err := Restore(t.Context(), empty, strings.NewReader(file), false, nil)
			must(t, err)
			checkFilled(t, empty)
			wantRotations(t, "an empty store", empty, "b first, c second")

			rotated := open(t)
			putRotations(t, rotated, handoverOf(1, "first"), handoverOf(2, ""), handoverOf(3, "third"))
			_, err = Restore(t.Context(), rotated, strings.NewReader(file), false, nil) // rotations alone are no content
			must(t, err)
			wantRotations(t, "a store that has rotated since", rotated, "b first, c second, d third")
			_, err = Restore(t.Context(), rotated, strings.NewReader(without), true, nil)
			must(t, err)
			checkFilled(t, rotated)
			wantRotations(t, "a backup without rotations", rotated, "b first, c second, d third")
		})
	}
}

// TestO1JournalKeysThatEntriesNeedAreMissed: a backup that is made with the keys of another journal names the days that
// they do not open, and can be restored with the right ones. Without keys nothing is restored.
func TestO1JournalKeysThatEntriesNeedAreMissed(t *testing.T) {
	keys := journal.NewKeys()
	from := journals(t, keys)["sqlite"]
	fillJournal(t, from)
	source := openDir(t)
	var right, wrong strings.Builder
	_, err := Write(t.Context(), &right, source, from, at)
	must(t, err)
	if days := from.MissingDays(); len(days) > 0 {
		t.Errorf("with the right keys there are missed %v", days)
	}
	other := opener(journal.NewKeys(), func() (journal.Store, error) { return from.Open(t.Context()) })
	_, err = Write(t.Context(), &wrong, source, other, at)
	must(t, err)
	if days := other.MissingDays(); len(days) != 5 || days[0] != "2026-03-30" || days[4] != "2026-04-03" {
		t.Errorf("missing are the days %v", days)
	}
	for _, file := range []string{right.String(), wrong.String()} {
		to := journals(t, keys)["sqlite"]
		_, err := Restore(t.Context(), openDir(t), strings.NewReader(file), false, to)
		must(t, err)
		wantRecords(t, "restored", to, cardKept, 5)
	}
	none := &Journal{Open: other.Open}
	if _, err := Restore(t.Context(), openDir(t), strings.NewReader(right.String()), false, none); err == nil ||
		!strings.Contains(err.Error(), "journal-keys.json is not on this machine") {
		t.Errorf("without keys: %v", err)
	}
}
