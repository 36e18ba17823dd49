package directory

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// A 3DS Server should be within 15 minutes of UTC (EMV 3DS 2.3.1, Req 416), and directory servers refuse requests whose
// times are half an hour off. The warning comes much earlier. A Date header is a second or two old when it is read, so
// a limit below a minute could give false alarms.
const (
	maxSkew             = time.Minute
	skewWarningInterval = time.Hour // between two warnings
)

// A clockCheck compares our clock with a directory server's and warns of a difference. Either may be wrong.
type clockCheck struct {
	log         *slog.Logger
	lastWarning atomic.Int64 // time of the last warning, Unix seconds
}

// compare checks the Date header of an answer. A missing or malformed header is ignored.
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
	last := c.lastWarning.Load()
	if now.Sub(time.Unix(last, 0)).Abs() < skewWarningInterval || // Abs: our clock may have been set back since
		!c.lastWarning.CompareAndSwap(last, now.Unix()) {
		return
	}
	c.log.Warn("the clock here and that of the directory server differ", "ahead", skew.Round(time.Second))
}
