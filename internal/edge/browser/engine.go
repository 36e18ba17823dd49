package browser

import (
	"context"

	"github.com/openthreeds/threeds/internal/engine/session"
)

// An Engine knows the authentications that wait for a browser. A token names one; binding is the second secret, of
// the browser that began it; a tag is what the issuer comes back with. [session.Engine] is one.
type Engine interface {
	OpenBrowser(ctx context.Context, token string) (*session.BrowserView, error)
	BeginBrowser(ctx context.Context, token, binding string,
		data session.BrowserData) (*session.BrowserView, string, error)
	ViewBrowser(ctx context.Context, token, binding string, after int) (*session.BrowserView, error)
	AnswerSPC(ctx context.Context, token, binding string, answer session.SPCAnswer) (*session.BrowserView, error)
	ConfirmBrowser(ctx context.Context, token, binding string) (*session.BrowserView, error)
	CancelBrowser(ctx context.Context, token, binding string) (*session.BrowserView, error)
	EndBrowserChallenge(ctx context.Context, tag string) (*session.BrowserView, error)
	WaitAfterChallenge(ctx context.Context, tag string) (*session.BrowserView, error)
	EndBrowserMethod(ctx context.Context, tag, threeDSMethodData string) error
}
