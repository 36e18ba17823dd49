package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgconn"
)

// Messages go before their records do. So an entry is chained without them: each step has the digest of its message,
// and the message itself, with the salt of that digest, is in a frame of another table. When it is gone, the entry is
// as it was written, and its chain verifies.

// A keptMessage is the message of a step of an entry.
type keptMessage struct {
	Step    int             `json:"step"` // its index
	Salt    string          `json:"salt"` // hexadecimal
	Message json.RawMessage `json:"message"`
}

// splitMessages returns an entry without the messages of its steps, which have their digests, and these messages. It is
// without the personal data of its steps, too. Its steps take the room of others.
func splitMessages(e *Entry, room []Step) (bare Entry, kept []keptMessage, err error) {
	bare = *e
	bare.Steps = append(room[:0], e.Steps...)
	for i := range bare.Steps {
		s := &bare.Steps[i]
		s.Personal = nil
		if len(s.Message) == 0 {
			continue
		}
		text := jsontext.Value(s.Message)
		if hasBlanks(text) {
			text = slices.Clone(text)
			if err := text.Compact(); err != nil { // as an export has it
				return bare, nil, err
			}
		}
		salt := make([]byte, 16)
		rand.Read(salt)
		kept = append(kept, keptMessage{i, hex.EncodeToString(salt), json.RawMessage(text)})
		s.Message, s.Bytes, s.Digest = nil, len(text), hex.EncodeToString(DigestOf(salt, text))
	}
	return bare, kept, nil
}

// hasBlanks reports whether JSON has blanks outside its strings.
func hasBlanks(text []byte) bool {
	isInside, isEscaped := false, false
	for {
		n := bytes.IndexByte(text, '"')
		if n < 0 {
			n = len(text)
		}
		if part := text[:n]; isInside {
			isEscaped = (len(part)-len(bytes.TrimRight(part, `\`)))%2 == 1
		} else if slices.ContainsFunc(part, func(c byte) bool { return c <= ' ' }) {
			return true
		}
		if n == len(text) {
			return false
		}
		isInside = !isInside || isEscaped
		text = text[n+1:]
	}
}

// appendMessages appends messages as JSON, without blanks.
func appendMessages(b []byte, kept []keptMessage) []byte {
	b = append(b, '[')
	for i, m := range kept {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(b, `{"step":`...), int64(m.Step), 10), `,"salt":"`...)
		b = append(append(append(b, m.Salt...), `","message":`...), m.Message...)
		b = append(b, '}')
	}
	return append(b, ']')
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

// Withheld begins the finding of a step whose message is not kept. The length of the message follows.
const Withheld = "message [withheld, "

// showMessages is putMessages for people: of messages that are not kept the findings say how long they were.
func showMessages(steps []Step, text []byte) error {
	if err := putMessages(steps, text); err != nil {
		return err
	}
	for i := range steps {
		if s := &steps[i]; s.Digest != "" && s.Message == nil {
			s.Findings = append(slices.Clone(s.Findings), fmt.Sprintf(Withheld+"%d bytes]", s.Bytes))
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

// besideTables are the tables with what stands beside entries, and goes before them.
var besideTables = []string{"journal_messages", "journal_personal"}

// makeBesidePartitions makes the partitions of a day of what stands beside entries. Rows of a day whose partition is
// gone already go into a partition for whatever has none.
func makeBesidePartitions(ctx context.Context, conn *sql.Conn, at time.Time) error {
	begin, end := spanOfDay(at)
	for _, table := range besideTables {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s_%s PARTITION OF %[1]s
			FOR VALUES FROM (%[3]d) TO (%d)`, table, at.UTC().Format("20060102"), begin, end))
		if err != nil && !isOutsidePartition(err) {
			return err
		}
	}
	return nil
}

// isOutsidePartition reports whether PostgreSQL has no partition for a row, or has rows of a new one in the default.
func isOutsidePartition(err error) bool {
	fault, ok := errors.AsType[*pgconn.PgError](err)
	return ok && fault.Code == "23514"
}

// restPartitions returns the statements that make the partitions for days that have none. Their names are those of no
// day.
func restPartitions() (all []string) {
	for _, table := range besideTables {
		all = append(all, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s_rest PARTITION OF %[1]s DEFAULT`, table))
	}
	return all
}

// expireBeside drops the partitions of a table of the days that ended before a time, but for those with something held.
func (s *tableStore) expireBeside(ctx context.Context, table string, before time.Time) error {
	last := before.UTC().Truncate(24 * time.Hour)
	held, in := daySet{}, s.inTx
	if isAny, err := s.isBesideBefore(ctx, table, last); err != nil {
		return err
	} else if isAny {
		var seal int64
		var isKnown bool
		if held, seal, isKnown, err = s.evidence.findHeldDays(ctx, table, last); err != nil || !isKnown {
			return err
		}
		in = func(ctx context.Context, do func(*sql.Tx) error) error { return s.unlessHeld(ctx, seal, do) }
	}
	if err := s.dropPartitions(ctx, last, held, in, table); err != nil {
		return notNewHold(err)
	}
	for _, gap := range held.gaps(last) {
		if err := in(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE made >= $1 AND made < $2`, gap.begin, gap.end)
			return err
		}); err != nil {
			return notNewHold(err)
		}
	}
	return nil
}

// notNewHold returns an error, unless it is errNewHold: the next call heeds the hold.
func notNewHold(err error) error {
	if errors.Is(err, errNewHold) {
		return nil
	}
	return err
}

// isBesideBefore reports whether a table has rows of the days that ended before a day.
func (db *database) isBesideBefore(ctx context.Context, table string, day time.Time) (isAny bool, err error) {
	err = db.QueryRowContext(ctx, db.query(`SELECT EXISTS (SELECT 1 FROM `+table+` WHERE made < ?)`),
		day.UnixMilli()).Scan(&isAny)
	return isAny, err
}

// expireBeside deletes the rows of a table of the days that ended before a time, but for those with something held, and
// gives the room back.
func (s *fileStore) expireBeside(ctx context.Context, table string, before time.Time) error {
	last := before.UTC().Truncate(24 * time.Hour)
	return s.each(ctx, func(db *database) (bool, error) {
		if isAny, err := db.isBesideBefore(ctx, table, last); err != nil || !isAny {
			return false, err
		}
		held, seal, isKnown, err := s.evidence.findHeldDays(ctx, table, last)
		if err != nil || !isKnown {
			return false, err
		}
		var n int64
		if err := db.unlessHeld(ctx, seal, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM %s WHERE made < ? AND made / %d NOT IN (%s)`, table,
				dayLen, held.numbers()), last.UnixMilli())
			if err == nil {
				n, err = result.RowsAffected()
			}
			return err
		}); err != nil || n == 0 {
			return false, notNewHold(err)
		}
		if err := db.truncateLog(ctx); err != nil && !errors.Is(err, errLogInUse) { // the next one empties it
			return false, err
		}
		return false, nil
	})
}

// ExpireMessages implements [Store].
func (s *tableStore) ExpireMessages(ctx context.Context, before time.Time) error {
	return s.expireBeside(ctx, "journal_messages", before)
}

// ExpireMessages implements [Store].
func (s *fileStore) ExpireMessages(ctx context.Context, before time.Time) error {
	return s.expireBeside(ctx, "journal_messages", before)
}

// ExpireMessages implements [Store].
func (l *lazyStore) ExpireMessages(ctx context.Context, before time.Time) error {
	return l.do(ctx, func(st Store) error { return st.ExpireMessages(ctx, before) })
}
