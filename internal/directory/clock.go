package directory

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// A 3DS Server should be within 15 minutes of UTC (EMV 3DS 2.3.1, Req 416), and
// directory servers refuse requests whose times are half an hour off. We warn much
// earlier. A Date header is a second or two old when it is read, so less than a minute
// could be a false alarm.
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
	if now.Sub(time.Unix(said, 0)).Abs() < skewEvery || // Abs: our clock may have been set back since
		!c.said.CompareAndSwap(said, now.Unix()) {
		return
	}
	c.log.Warn("the clock here and that of the directory server differ", "ahead", skew.Round(time.Second))
}
