package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Messages go before their records do. So an entry is chained without them: each step has the digest of its message, and
// the message itself, with the salt of that digest, is in a table of its own. When it is gone, the entry is as it was
// written, and its chain verifies.

// messageColumns are those of a row of journal_messages.
var messageColumns = []string{"made", "id", "kind", "body"}

// A keptMessage is the message of a step of an entry.
type keptMessage struct {
	Step    int             `json:"step"` // its index
	Salt    string          `json:"salt"` // hexadecimal
	Message json.RawMessage `json:"message"`
}

// splitMessages returns an entry without the messages of its steps, which have their digests, and these messages.
func splitMessages(e *Entry) (bare Entry, kept []keptMessage, err error) {
	bare = *e
	bare.Steps = slices.Clone(e.Steps)
	for i := range bare.Steps {
		s := &bare.Steps[i]
		if len(s.Message) == 0 {
			continue
		}
		text, err := json.Marshal(s.Message) // in the form in which an export has it
		if err != nil {
			return bare, nil, err
		}
		salt := make([]byte, 16)
		rand.Read(salt)
		kept = append(kept, keptMessage{i, hex.EncodeToString(salt), text})
		s.Message, s.Bytes, s.Digest = nil, len(text), hex.EncodeToString(DigestOf(salt, text))
	}
	return bare, kept, nil
}

// messageRow makes the row of the messages of an entry; nil if it has none.
func (db *database) messageRow(e *Entry, kept []keptMessage) ([]any, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	body, err := seal(db.keys[dayOf(e.Record.Created)], pack(text), messagesName(e.Record.ID, string(e.Kind)))
	return []any{e.Record.Created.UnixMilli(), e.Record.ID, string(e.Kind), body}, err
}

// messagesName is what the messages of an entry are sealed under. No entry has this name, for no kind ends so.
func messagesName(id, kind string) string { return id + " " + kind + " messages" }

// openMessages returns the messages of an entry.
func (db *database) openMessages(ctx context.Context, day, id, kind string, body []byte) ([]byte, error) {
	return db.openNamed(ctx, day, messagesName(id, kind), body)
}

// putMessages puts the messages that are kept into the steps of an entry.
func putMessages(steps []Step, text []byte) error {
	var kept []keptMessage
	if text != nil {
		if err := json.Unmarshal(text, &kept); err != nil {
			return err
		}
	}
	for _, m := range kept {
		if m.Step >= 0 && m.Step < len(steps) {
			steps[m.Step].Message = m.Message
		}
	}
	return nil
}

// showMessages is putMessages for people: of messages that are not kept the findings say how long they were.
func showMessages(steps []Step, text []byte) error {
	if err := putMessages(steps, text); err != nil {
		return err
	}
	for i := range steps {
		if s := &steps[i]; s.Digest != "" && s.Message == nil {
			s.Findings = append(slices.Clone(s.Findings), fmt.Sprintf("message [withheld, %d bytes]", s.Bytes))
		}
		steps[i].Digest = "" // it says nothing without its salt
	}
	return nil
}

// checkMessages says what is wrong with the messages of an exported entry, "" if nothing is.
func checkMessages(record, messages json.RawMessage) string {
	if messages == nil {
		return ""
	}
	var e Entry
	var kept []keptMessage
	if json.Unmarshal(messages, &kept) != nil || json.Unmarshal(record, &e) != nil {
		return "messages without an entry that they belong to"
	}
	for n, m := range kept {
		salt, err := hex.DecodeString(m.Salt)
		if err != nil || m.Step < 0 || m.Step >= len(e.Steps) || n > 0 && m.Step <= kept[n-1].Step ||
			hex.EncodeToString(DigestOf(salt, m.Message)) != e.Steps[m.Step].Digest {
			return fmt.Sprintf("message %d does not fit the digest of its step", n+1)
		}
	}
	return ""
}

// readMessages returns the messages of the entries of an id in a time, opened, by kind.
func (db *database) readMessages(ctx context.Context, id string, begin, end int64) (map[string][]byte, error) {
	rows, err := db.QueryContext(ctx, db.query(`SELECT made, kind, body FROM journal_messages WHERE id = ? AND made >= ? AND made < ?`), id, begin, end)
	if err != nil {
		return nil, err
	}
	sealed := map[string][]byte{}
	days := map[string]string{}
	for rows.Next() {
		var made int64
		var kind string
		var body []byte
		if err := rows.Scan(&made, &kind, &body); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		sealed[kind], days[kind] = body, dayOf(time.UnixMilli(made))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for kind, body := range sealed {
		if sealed[kind], err = db.openMessages(ctx, days[kind], id, kind, body); err != nil {
			return nil, err
		}
	}
	return sealed, nil
}

// makeMessagePartitions makes the partition for the messages of a day. Those of a day whose partition is gone already go
// into a partition for whatever has none.
func makeMessagePartitions(ctx context.Context, conn *sql.Conn, at time.Time) error {
	begin, end := spanOfDay(at)
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS journal_messages_%s PARTITION OF journal_messages
		FOR VALUES FROM (%d) TO (%d)`, at.UTC().Format("20060102"), begin, end))
	const isInDefault = "23514"
	if fault, ok := errors.AsType[*pgconn.PgError](err); ok && fault.Code == isInDefault {
		return nil
	}
	return err
}

// messagesRest is the partition of messages of days that have none. Its name is that of no day.
const messagesRest = `CREATE TABLE IF NOT EXISTS journal_messages_rest PARTITION OF journal_messages DEFAULT`

// ExpireMessages drops the partitions of messages of the days that ended before a time.
func (s *tableStore) ExpireMessages(ctx context.Context, before time.Time) error {
	last := before.UTC().Truncate(24 * time.Hour)
	if err := s.dropPartitions(ctx, last, "journal_messages"); err != nil {
		return err
	}
	_, err := s.ExecContext(ctx, `DELETE FROM journal_messages WHERE made < $1`, last.UnixMilli())
	return err
}

// ExpireMessages deletes the messages of the days that ended before a time, and gives the room back.
func (s *fileStore) ExpireMessages(ctx context.Context, before time.Time) error {
	last := before.UTC().Truncate(24 * time.Hour)
	return s.each(ctx, func(db *database) (bool, error) {
		var isAny bool
		err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal_messages WHERE made < ?)`, last.UnixMilli()).Scan(&isAny)
		if err != nil || !isAny {
			return false, err
		}
		if _, err := db.ExecContext(ctx, `DELETE FROM journal_messages WHERE made < ?`, last.UnixMilli()); err != nil {
			return false, err
		}
		if err := db.truncateLog(ctx); err != nil && !errors.Is(err, errLogInUse) { // the next one empties it
			return false, err
		}
		return false, nil
	})
}

// ExpireMessages implements [Store].
func (l *lazyStore) ExpireMessages(ctx context.Context, before time.Time) error {
	st, err := l.get(ctx)
	if err != nil {
		return err
	}
	return st.ExpireMessages(ctx, before)
}
