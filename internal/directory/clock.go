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
	maxSkew             = time.Minute
	skewWarningInterval = time.Hour // between two complaints
)

// A clockCheck compares ours with a directory server's. Nobody knows which is wrong.
type clockCheck struct {
	log         *slog.Logger
	lastWarning atomic.Int64 // when it complained last, Unix seconds
}

// compare reads the Date header of an answer; one that is missing or malformed
// says nothing.
func (c *clockCheck) compare(date string) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return
	}
	now := time.Now()
	skew := now.Sub(theirs)
	if skew.Abs() <= maxSkew {
		return
	}
	said := c.lastWarning.Load()
	if now.Sub(time.Unix(said, 0)).Abs() < skewWarningInterval || // Abs: our clock may have been set back since
		!c.lastWarning.CompareAndSwap(said, now.Unix()) {
		return
	}
	c.log.Warn("the clock here and that of the directory server differ", "ahead", skew.Round(time.Second))
}
