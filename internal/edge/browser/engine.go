package browser

import (
	"context"

	"github.com/openthreeds/threeds/internal/engine/auth"
)

// An Engine knows the authentications that wait for a browser. A token names one; binding is the second secret, of
// the browser that began it; a tag is what the issuer comes back with. [auth.Engine] is one.
type Engine interface {
	OpenBrowser(ctx context.Context, token string) (*auth.BrowserView, error)
	BeginBrowser(ctx context.Context, token, binding string, data auth.BrowserData) (*auth.BrowserView, string, error)
	ViewBrowser(ctx context.Context, token, binding string, after int) (*auth.BrowserView, error)
	AnswerSPC(ctx context.Context, token, binding string, answer auth.SPCAnswer) (*auth.BrowserView, error)
	ConfirmBrowser(ctx context.Context, token, binding string) (*auth.BrowserView, error)
	CancelBrowser(ctx context.Context, token, binding string) (*auth.BrowserView, error)
	EndBrowserChallenge(ctx context.Context, tag string) (*auth.BrowserView, error)
	WaitAfterChallenge(ctx context.Context, tag string) (*auth.BrowserView, error)
	EndBrowserMethod(ctx context.Context, tag, threeDSMethodData string) error
}
