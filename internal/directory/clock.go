package directory

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Directory servers refuse requests whose times are half an hour off, and a
// server should be within 15 minutes of UTC (EMV 3DS 2.3.1, Req 416). A minute is
// early enough to hear of it: what the Date header says is a second or two old.
const (
	maxSkew   = time.Minute
	skewEvery = time.Hour // between two complaints
)

// A clock compares ours with a directory server's. Nobody knows which is wrong.
type clock struct {
	log  *slog.Logger
	said atomic.Int64 // when it complained last, Unix seconds
}

// compare reads the Date header of an answer; one that is missing or malformed
// says nothing.
func (c *clock) compare(date string) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return
	}
	now := time.Now()
	skew := now.Sub(theirs)
	if skew.Abs() <= maxSkew {
		return
	}
	said := c.said.Load()
	if now.Sub(time.Unix(said, 0)).Abs() < skewEvery || // it may have been said by a clock that was years ahead
		!c.said.CompareAndSwap(said, now.Unix()) {
		return
	}
	c.log.Warn("the clock here and that of the directory server differ", "ahead", skew.Round(time.Second))
}
