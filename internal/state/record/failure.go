package record

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// ErrUnreadable is the error of [Open], by [errors.Is]: the store gave the row, and what it holds cannot be read.
var ErrUnreadable = errors.New("the record cannot be read")

// unreadable makes an error also [ErrUnreadable], and leaves its text as it is.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

func (unreadable) Is(target error) bool { return target == ErrUnreadable }

// A LogLimit limits lines of the log that many requests cause at the same time.
type LogLimit interface {
	// Due reports whether a line may be logged now, and how many were left out since the last one.
	Due(now time.Time) (others int, ok bool)
}

// LogFailure logs that the store did not do its part in a request, as often as limit allows; nil is no limit. The line
// counts those that were left out as others. A row that cannot be read is always logged, for it may have been changed
// by an attacker.
func LogFailure(ctx context.Context, log *slog.Logger, limit LogLimit, now time.Time, what string, err error,
	attrs ...any) {
	if limit != nil && !errors.Is(err, ErrUnreadable) {
		others, ok := limit.Due(now)
		if !ok {
			return
		}
		if others > 0 {
			attrs = append(attrs, "others", others)
		}
	}
	log.ErrorContext(ctx, what, append(attrs, "err", err)...)
}
